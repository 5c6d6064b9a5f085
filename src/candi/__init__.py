"""Diffusion on discrete data: CANDI (continuous and discrete diffusion) and the methods it is measured against.

>>> import candi
>>> model = candi.load("text8")                                           # doctest: +SKIP
>>> model.generate(n=2, steps=16, temperature=0.9, prompt="the ")         # doctest: +SKIP
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from candi.base.threads import wait_briefly
from candi.base.version import __version__ as __version__

wait_briefly()

if TYPE_CHECKING:
    from candi.api import *  # noqa: F403 - for those who read the types
    from candi.api import __all__ as __all__


def __getattr__(name: str) -> Any:
    """The names of candi.api when one is asked for: PyTorch takes seconds, and the command line speaks before that."""
    api = import_module("candi.api")
    return globals()[name] if name in globals() else getattr(api, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *import_module("candi.api").__all__})
