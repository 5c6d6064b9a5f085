"""One file per method; this is the registry. Nothing outside this folder asks for a method's name."""

from candi.errors import UserError
from candi.methods.ar import AR, ArSettings
from candi.methods.base import Method, MethodSettings
from candi.methods.candi import CANDI, CandiSettings
from candi.methods.continuous import Continuous
from candi.methods.duo import DUO, DuoSettings
from candi.methods.embedding import EmbeddingSettings
from candi.methods.mdlm import MDLM, MdlmSettings
from candi.methods.onehot import OneHotSettings
from candi.methods.udlm import UDLM, UdlmSettings

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
