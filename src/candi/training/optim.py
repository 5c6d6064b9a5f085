"""AdamW and its learning rate."""

from collections.abc import Iterable

import torch
from torch import nn

from candi.training.settings import FitSettings


def adamw(parameters: Iterable[nn.Parameter], settings: FitSettings, device: torch.device) -> torch.optim.AdamW:
    return torch.optim.AdamW(
        parameters,
        lr=settings.learning_rate,
        betas=(settings.beta1, settings.beta2),
        weight_decay=settings.weight_decay,
        fused=device.type in ("cuda", "cpu"),  # one pass over the weights
    )


def learning_rate(settings: FitSettings, step: int) -> float:
    """Up over the warm-up, constant, down over the cool-down."""
    up = (step + 1) / settings.warmup if settings.warmup else 1.0
    down = (settings.steps - step) / settings.cooldown if settings.cooldown else 1.0
    return settings.learning_rate * min(up, down, 1.0)
