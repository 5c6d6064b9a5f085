"""What is measured, and on what."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from candi.base.errors import UserError
from candi.nets.dit import DiTSettings


@dataclass(frozen=True)
class BenchSettings:
    """The sizes of a benchmark.

    Args:
        out: JSON file for the results; a figure, where there is one, is drawn beside it.
        size: paper (12 blocks, 768 wide, length 1,024), small (4 blocks, 64 wide, length 128) or toy; auto is paper
            on a GPU and small on a CPU.
        vocab_size: Tokens in the vocabulary.
        length: Tokens of a sequence, if not those of the size.
        batch_size: Sequences at once; by default what the size is usually run with.
        device: auto, cpu or cuda.
        compile: Compile our path; by default on a GPU.
        growth: Also measure the growth with vocabulary, length and batch.
        ablation: Also measure our path with one idea left out at a time.
        most_steps: Largest number of denoising steps that is timed.
        repeats: Calls of which the median is taken.
        only: Measure only what has one of these words, divided by commas, in its name; by default all.
    """

    out: Path
    size: Literal["auto", "paper", "small", "toy"] = "auto"
    vocab_size: int = 50_257
    length: int | None = None
    batch_size: int | None = None
    device: Literal["auto", "cpu", "cuda"] = "auto"
    compile: bool | None = None
    growth: bool = True
    ablation: bool = True
    most_steps: int = 1024
    repeats: int = 5
    only: str | None = None

    def __post_init__(self) -> None:
        if self.vocab_size < 2 or any(n is not None and n < 1 for n in (self.repeats, self.batch_size, self.length)):
            raise UserError(
                "A benchmark needs a vocabulary of at least 2; length, batch size and repeats of at least 1."
            )
        if self.device == "cuda" and not torch.cuda.is_available():
            raise UserError("There is no cuda device on this machine; leave out --device.")
        if self.out.is_dir():
            raise UserError(f"{self.out} is a folder; --out is the JSON file to write.")

    @property
    def target(self) -> torch.device:
        cuda = self.device == "cuda" or (self.device == "auto" and torch.cuda.is_available())
        return torch.device("cuda" if cuda else "cpu")

    @property
    def scale(self) -> str:
        return self.size if self.size != "auto" else "paper" if self.target.type == "cuda" else "small"

    @property
    def trunk(self) -> DiTSettings:
        if self.scale == "paper":
            return DiTSettings(width=768, blocks=12, heads=12, dropout=0.1)
        return DiTSettings(width=64, blocks=4, heads=2) if self.scale == "small" else DiTSettings(32, 2, 2)

    @property
    def positions(self) -> int:
        return self.length or {"paper": 1024, "small": 128, "toy": 16}[self.scale]

    @property
    def compiled(self) -> bool:
        return self.target.type == "cuda" if self.compile is None else self.compile

    @property
    def dtype(self) -> torch.dtype:
        return torch.bfloat16 if self.target.type == "cuda" else torch.float32

    def wants(self, name: str) -> bool:
        """Whether a measurement of this name is asked for."""
        return self.only is None or any(word.strip() in name for word in self.only.split(","))

    def grown(self, batch: int) -> list[tuple[int, int, int]]:
        """(vocabulary, length, batch): one of them smaller or larger at a time."""
        size, length = self.vocab_size, self.positions
        grid = [(v, length, batch) for v in (27, 512, 4096, 50_257, 256_000)]
        grid += [(size, length * k // 4, batch) for k in (1, 2, 4, 8)]
        grid += [(size, length, max(1, batch * k // 8)) for k in (1, 4, 8, 16)]
        return list(dict.fromkeys(grid))

    def batches(self, *usual: int) -> tuple[int, ...]:
        return usual if self.batch_size is None else (self.batch_size,)
