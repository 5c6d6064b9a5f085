"""Our training step with one idea left out: variants that are built from outside, nothing is patched.

Older results also hold two that need another build of the kernels (no kernels of our own, a vocabulary of odd size).
"""

import importlib.util
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from candi.base.types import Labels
from candi.diffusion.open_positions import OpenPositions
from candi.diffusion.prediction import Prediction
from candi.diffusion.state import State
from candi.nets.denoiser import Denoiser, Features
from candi.nets.head import Head
from candi.training.optim import Groups, adamw
from candi.training.settings import FitSettings
from candi.training.step import OptimizerFactory

_TORCH_HAS_IT = importlib.util.find_spec("torch.nn.modules.linear_cross_entropy") is not None  # newer than our oldest


@dataclass(frozen=True)
class Ablation:
    """A variant: another denoiser (its head, say) or optimizer; `eager` is not compiled, `on_cuda` needs a GPU."""

    name: str
    denoiser: type[Denoiser] = Denoiser
    optimizer: OptimizerFactory = adamw
    eager: bool = False
    deterministic: bool = False
    on_cuda: bool = False


class EverywherePrediction(Prediction):
    """Reads out every position, open or not."""

    def within(self, capacity: int) -> Prediction:
        everywhere = OpenPositions(torch.ones_like(self.open), self.open.numel())
        return Prediction(self.features, self.readout, self.vocab_size, everywhere)


class CountedPrediction(Prediction):
    """Waits for the device to count the open positions."""

    def within(self, capacity: int) -> Prediction:
        return self


class EverywhereDenoiser(Denoiser):
    def predict(self, features: Features, state: State, label: Labels | None = None, *more: Any) -> Prediction:
        found = super().predict(features, state, label, *more)
        return EverywherePrediction(found.features, found.readout, found.vocab_size, found.open)


class CountingDenoiser(Denoiser):
    def predict(self, features: Features, state: State, label: Labels | None = None, *more: Any) -> Prediction:
        found = super().predict(features, state, label, *more)
        return CountedPrediction(found.features, found.readout, found.vocab_size, found.open)


class DenseHead(Head):
    """Holds all logits for the backward pass."""

    def nll(self, rows: Tensor, targets: Tensor, vocab_size: int) -> Tensor:
        return F.cross_entropy(self(rows).float(), targets, reduction="none")


class TorchHead(Head):
    """torch's own fused loss."""

    def nll(self, rows: Tensor, targets: Tensor, vocab_size: int) -> Tensor:
        rows, weight, bias = self._ready(rows)
        return F.linear_cross_entropy(  # type: ignore[attr-defined]
            rows, weight, targets, linear_bias=bias, reduction="none", options=torch.nn.LinearCrossEntropyOptions()
        )


class DenseDenoiser(Denoiser):
    head_class = DenseHead


class TorchDenoiser(Denoiser):
    head_class = TorchHead


def slow_adamw(groups: Groups, settings: FitSettings, device: torch.device) -> torch.optim.Optimizer:
    """One parameter after another."""
    return torch.optim.AdamW(groups, lr=settings.learning_rate, foreach=False)


ABLATIONS = [
    Ablation("head at every position", denoiser=EverywhereDenoiser),
    Ablation("dense cross-entropy", denoiser=DenseDenoiser),
    Ablation("optimizer parameter by parameter", optimizer=slow_adamw),
    Ablation("counting open positions", denoiser=CountingDenoiser, on_cuda=True),
    Ablation("repeatable to the bit", deterministic=True, on_cuda=True),
    Ablation("trunk not compiled", eager=True),
    *([Ablation("torch's linear_cross_entropy", denoiser=TorchDenoiser)] if _TORCH_HAS_IT else []),
]
