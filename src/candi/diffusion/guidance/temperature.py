"""Sharper or flatter predictions."""

from candi.base.errors import UserError
from candi.diffusion.prediction import Prediction
from candi.diffusion.sampler import Denoise
from candi.diffusion.state import State

_LEAST = 1e-30  # float32 holds one over it


def tempered(denoise: Denoise, temperature: float) -> Denoise:
    """p^(1/temperature), normalised: logits divided by the temperature, in the draw and in the mean alike."""
    if not _LEAST <= temperature < float("inf"):
        raise UserError(f"The temperature must be above 0, not {temperature}; try 0.1 for nearly greedy samples.")
    if temperature == 1:
        return denoise

    def denoise_tempered(state: State) -> Prediction:
        return denoise(state).tempered(temperature)

    return denoise_tempered
