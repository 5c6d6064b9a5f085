"""One file per method; this is the registry. Nothing outside this folder asks for a method's name."""

from collections.abc import Mapping

from candi.methods.base import Method, MethodSettings
from candi.methods.candi import CANDI, CandiSettings
from candi.methods.mdlm import MDLM, MdlmSettings

METHODS: Mapping[str, type[MethodSettings]] = {
    "candi": CandiSettings,
    "mdlm": MdlmSettings,
}

__all__ = ["CANDI", "MDLM", "METHODS", "CandiSettings", "MdlmSettings", "Method", "MethodSettings"]
