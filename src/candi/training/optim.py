"""AdamW and its learning rate."""

from collections.abc import Sequence
from typing import Any

import torch

from candi.training.settings import FitSettings

Groups = Sequence[dict[str, Any]]  # `params`, and the `rate` that their learning rate is multiplied by


def adamw(groups: Groups, settings: FitSettings, device: torch.device) -> torch.optim.AdamW:
    return torch.optim.AdamW(
        groups,
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
