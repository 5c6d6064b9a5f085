"""Explicit randomness."""

import hashlib
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor


def derive(seed: int, *path: int | str) -> int:
    """A new seed that is a pure function of `seed` and a path such as ("train", step, row)."""
    digest = hashlib.blake2b(repr((seed, *path)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


class Rng:
    """Random numbers for a batch, drawn in equal parts from a list of generators.

    One generator: one stream for the whole batch. One generator a row: row i depends on its own stream alone,
    so neither the size of the batch nor the number of devices changes what happens to it.
    """

    def __init__(self, generators: Sequence[torch.Generator]) -> None:
        self.generators = list(generators)
        self.device = self.generators[0].device

    @classmethod
    def from_seed(cls, seed: int, device: torch.device | str = "cpu") -> "Rng":
        return cls([torch.Generator(device).manual_seed(seed)])

    @classmethod
    def per_row(cls, seeds: Iterable[int], device: torch.device | str = "cpu") -> "Rng":
        return cls([torch.Generator(device).manual_seed(seed) for seed in seeds])

    def uniform(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """U[0, 1), shape [B, ...]."""
        return self._fill(shape, dtype, lambda part, generator: part.uniform_(generator=generator))

    def normal(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """N(0, 1), shape [B, ...]."""
        return self._fill(shape, dtype, lambda part, generator: part.normal_(generator=generator))

    def integers(self, *shape: int, below: int) -> Tensor:
        """Uniform on {0, ..., below - 1}, shape [B, ...]."""
        return (self.uniform(*shape, dtype=torch.float64) * below).long().clamp(max=below - 1)

    def _fill(
        self, shape: tuple[int, ...], dtype: torch.dtype, fill: Callable[[Tensor, torch.Generator], Tensor]
    ) -> Tensor:
        if shape[0] % len(self.generators):
            raise ValueError(f"{shape[0]} rows cannot be shared equally by {len(self.generators)} generators")
        out = torch.empty(shape, dtype=dtype, device=self.device)
        rows = shape[0] // len(self.generators)
        for index, generator in enumerate(self.generators):
            fill(out[index * rows : (index + 1) * rows], generator)
        return out
