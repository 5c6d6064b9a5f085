"""One file per method; this is the registry. Nothing outside this folder asks for a method's name."""

from candi.base.errors import UserError
from candi.diffusion.methods.ar import AR, ArSettings
from candi.diffusion.methods.base import Method, MethodSettings
from candi.diffusion.methods.candi import CANDI, CandiSettings
from candi.diffusion.methods.continuous import Continuous
from candi.diffusion.methods.duo import DUO, DuoSettings
from candi.diffusion.methods.embedding import EmbeddingSettings
from candi.diffusion.methods.mdlm import MDLM, MdlmSettings
from candi.diffusion.methods.onehot import OneHotSettings
from candi.diffusion.methods.udlm import UDLM, UdlmSettings

METHODS: dict[str, type[MethodSettings]] = {
    "candi": CandiSettings,
    "mdlm": MdlmSettings,
    "udlm": UdlmSettings,
    "duo": DuoSettings,
    "onehot": OneHotSettings,
    "embedding": EmbeddingSettings,
    "ar": ArSettings,
}


def register(name: str, settings: type[MethodSettings]) -> None:
    """Make a method of your own known under a name, to every command."""
    if name in METHODS:
        raise UserError(f"There is a method {name!r} already; choose another name.")
    METHODS[name] = settings


__all__ = [
    "AR",
    "CANDI",
    "DUO",
    "MDLM",
    "METHODS",
    "UDLM",
    "ArSettings",
    "CandiSettings",
    "Continuous",
    "DuoSettings",
    "EmbeddingSettings",
    "MdlmSettings",
    "Method",
    "MethodSettings",
    "OneHotSettings",
    "UdlmSettings",
    "register",
]
