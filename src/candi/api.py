"""What `import candi` offers."""

from typing import TYPE_CHECKING, Any

from candi.base.errors import UserError
from candi.base.rng import Rng
from candi.base.version import __version__
from candi.data.datasets import Dataset, load_dataset
from candi.diffusion import guidance, identifiability, schedules, spaces
from candi.diffusion.embeddings import TimestepEmbedder, TokenEmbedding
from candi.diffusion.methods import AR, CANDI, DUO, MDLM, METHODS, UDLM, Continuous, Method, MethodSettings, register
from candi.diffusion.prediction import Prediction
from candi.diffusion.sampler import SampleStep, bind, bind_step, last_state, sample
from candi.diffusion.schedules import timesteps
from candi.diffusion.state import State, hidden
from candi.hub.loading import load
from candi.model.model import Model
from candi.nets.config import ModelConfig
from candi.nets.denoiser import Denoiser
from candi.nets.dit import DiT, DiTSettings
from candi.nets.ideal import IdealDenoiser
from candi.nets.trunk import Trunk, TrunkSettings
from candi.nets.trunks import TRUNKS, register_trunk
from candi.training.settings import FitSettings

if TYPE_CHECKING:
    from candi.training.fit import fit

__all__ = [
    "AR",
    "CANDI",
    "DUO",
    "MDLM",
    "METHODS",
    "TRUNKS",
    "UDLM",
    "Continuous",
    "Dataset",
    "Denoiser",
    "DiT",
    "DiTSettings",
    "FitSettings",
    "IdealDenoiser",
    "Method",
    "MethodSettings",
    "Model",
    "ModelConfig",
    "Prediction",
    "Rng",
    "SampleStep",
    "State",
    "TimestepEmbedder",
    "TokenEmbedding",
    "Trunk",
    "TrunkSettings",
    "UserError",
    "__version__",
    "bind",
    "bind_step",
    "fit",
    "guidance",
    "hidden",
    "identifiability",
    "last_state",
    "load",
    "load_dataset",
    "register",
    "register_trunk",
    "sample",
    "schedules",
    "spaces",
    "timesteps",
]


def __getattr__(name: str) -> Any:
    """`fit` when it is asked for: Lightning takes longer to import than all the rest."""
    if name != "fit":
        raise AttributeError(f"module 'candi' has no attribute {name!r}")
    from candi.training.fit import fit

    return fit
