"""The names and shapes of what a configuration describes, without the memory that it would take."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import get_ident

import torch
from torch import nn
from torch.nn.modules.module import (
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)

from candi.base.errors import UserError


def outline(build: Callable[[], nn.Module], weights: Iterable[torch.Size]) -> dict[str, torch.Size]:
    """The shapes of what `build` makes, by name, where the weights that it is for have the shapes `weights`.

    It is built on the meta device, whose tensors have no numbers, and no further than such weights could fill: a
    million blocks end after a few. A network that looks at numbers while it is built is built in memory instead.
    """
    sizes = [size.numel() for size in weights]
    # a tensor has a few modules around it; the table of token vectors may be made once more, and thrown away
    with _at_most(parts=1000 + 20 * len(sizes), numbers=10_000_000 + 4 * sum(sizes)):
        try:
            with torch.device("meta"):
                made = build()
        except UserError:
            raise
        except Exception as error:  # whatever somebody's network makes of sizes that are none
            if not isinstance(error, RuntimeError) or "meta" not in str(error):
                raise UserError(f"The network that it describes cannot be built ({_first_line(error)}).") from None
            made = build()
    return {name: tensor.shape for name, tensor in made.state_dict().items()}


@contextmanager
def _at_most(parts: int, numbers: int) -> Iterator[None]:
    """Modules and parameters of a network that this thread builds, and the numbers in them."""
    own = get_ident()

    def count(_: nn.Module, name: str, part: object) -> None:
        nonlocal parts, numbers
        if get_ident() == own:
            parts -= 1
            numbers -= part.numel() if isinstance(part, nn.Parameter) else 0
            if min(parts, numbers) < 0:
                raise UserError("The network that it describes is far larger than its weights.")

    hooks = [register_module_parameter_registration_hook(count), register_module_module_registration_hook(count)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
