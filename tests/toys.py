"""A small distribution whose every posterior is known, and how far samples are from it."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from candi.base.labels import Label
from candi.base.rng import Rng
from candi.diffusion.guidance import Guidance
from candi.diffusion.methods import METHODS, Method
from candi.diffusion.sampler import bind, sample
from candi.nets.config import ModelConfig
from candi.nets.denoiser import Denoiser
from candi.nets.dit import DiTSettings
from candi.nets.ideal import IdealDenoiser


def denoiser_of(
    name: str, vocab_size: int, trunk: DiTSettings, length: int = 16, label: str | None = None, **options: Any
) -> Denoiser:
    """A denoiser of a method by name, with random weights; `options` are those of the method."""
    labels = () if label is None else (Label(label),)
    return Denoiser.build(ModelConfig(vocab_size, length, name, METHODS[name](**options), trunk, labels))


@dataclass(frozen=True)
class Toy:
    """Correlated sequences: a support drawn from a Markov chain, so that positions depend on each other strongly."""

    vocab_size: int = 6
    length: int = 4
    support: int = 24
    seed: int = 1

    def __post_init__(self) -> None:
        random = torch.Generator().manual_seed(self.seed)
        move = torch.softmax(
            2 * torch.randn(self.vocab_size, self.vocab_size, generator=random, dtype=torch.float64), -1
        )
        start = torch.softmax(torch.randn(self.vocab_size, generator=random, dtype=torch.float64), -1)
        every = torch.cartesian_prod(*[torch.arange(self.vocab_size)] * self.length)
        weight = start[every[:, 0]]
        for i in range(1, self.length):
            weight = weight * move[every[:, i - 1], every[:, i]]
        chosen = torch.multinomial(weight, self.support, generator=random)
        object.__setattr__(self, "sequences", every[chosen])
        object.__setattr__(self, "probabilities", weight[chosen] / weight[chosen].sum())

    def ideal(self, method: Method) -> IdealDenoiser:
        return IdealDenoiser(method, self.sequences, self.probabilities, self.vocab_size)

    def truth(self, n: int, seed: int) -> Tensor:
        random = torch.Generator().manual_seed(seed)
        return self.sequences[torch.multinomial(self.probabilities, n, replacement=True, generator=random)]

    def entropy(self) -> float:
        return float(-(self.probabilities * self.probabilities.log()).sum())

    def distance(self, samples: Tensor) -> float:
        """Total variation between the samples' histogram and the truth."""
        code = self.vocab_size ** torch.arange(self.length)
        size = self.vocab_size**self.length
        expected = torch.zeros(size, dtype=torch.float64).index_put(
            ((self.sequences * code).sum(-1),), self.probabilities
        )
        seen = torch.bincount((samples * code).sum(-1), minlength=size) / len(samples)
        return 0.5 * float((seen - expected).abs().sum())

    def sample(
        self, method: Method, n: int, steps: int, seed: int = 0, guide: Guidance | None = None, **options: str
    ) -> Tensor:
        nothing = torch.zeros(n, self.length, dtype=torch.long)
        return self.complete(method, nothing, nothing.bool(), steps, seed, guide, **options)

    def complete(
        self, method: Method, x0: Tensor, known: Tensor, steps: int, seed: int = 0, guide: Guidance | None = None,
        **options: str,
    ) -> Tensor:  # fmt: skip
        rng = Rng.from_seed(seed)
        with torch.no_grad():
            sampling = bind(method, **options)
            start = sampling.prior(x0, known, rng)
            denoise, step = self.ideal(method), sampling.step
            if guide is not None:
                denoise, step = guide.over(method, denoise, step)
            for one in sample(denoise, step, start, sampling.timesteps(steps, self.length), rng):
                assert torch.equal(one.state.tokens[known], x0[known]), "a step changed a given token"
        return method.decode(one.state)
