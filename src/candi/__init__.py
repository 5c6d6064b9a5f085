"""Diffusion on discrete data: CANDI (continuous and discrete diffusion) and the methods it is measured against.

>>> import candi
>>> model = candi.load("runs/demo")                                       # doctest: +SKIP
>>> model.generate(n=2, steps=16, temperature=0.9, prompt="The ")         # doctest: +SKIP
"""

from candi import identifiability
from candi.errors import UserError
from candi.loading import load
from candi.methods import CANDI, MDLM, METHODS, Method
from candi.model import Model
from candi.nets.denoiser import Denoiser
from candi.nets.ideal import IdealDenoiser
from candi.nets.prediction import Prediction
from candi.rng import Rng
from candi.sampling.walk import stepper, walk
from candi.schedules import times
from candi.state import State

__version__ = "0.1.0"

__all__ = [
    "CANDI",
    "MDLM",
    "METHODS",
    "Denoiser",
    "IdealDenoiser",
    "Method",
    "Model",
    "Prediction",
    "Rng",
    "State",
    "UserError",
    "identifiability",
    "load",
    "stepper",
    "times",
    "walk",
]
