"""The precision that a computation runs in."""

import torch


def working_dtype(device: torch.device, otherwise: torch.dtype) -> torch.dtype:
    """That of autocast where it is on, for kernels that it does not know; else that of the weights."""
    kind = device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else otherwise
