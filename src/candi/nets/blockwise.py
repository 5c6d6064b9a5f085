"""Writing block by block: a denoiser of the open block that remembers those before it, and the walk over blocks."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from candi.base.rng import Rng
from candi.base.types import Labels, Mask, Tokens
from candi.diffusion.open_positions import OpenPositions
from candi.diffusion.prediction import Prediction
from candi.diffusion.sampler import Denoise, SampleStep, Step, advance
from candi.diffusion.state import State
from candi.nets.blocks import Joined, Memory, Pattern
from candi.nets.denoiser import Denoiser
from candi.nets.engine import Engine


@runtime_checkable
class Reader(Protocol):
    """What is told of the blocks that are written."""

    def extend(self, tokens: Tokens) -> None:
        """These come after what was written [B, n b]."""

    def select(self, rows: Int[Tensor, "N"]) -> None:
        """Only these rows of the batch go on."""

    def restart(self, tokens: Tokens) -> None:
        """From now on only these are seen [B, n b], as if the text began with them."""


class BlockDenoiser:
    """p(x0^k | z_t^k, x^<k) of the open block k, with the keys and values of all blocks before it.

    With an `engine` its rounded trunk and head are taken. Not `cached`, all blocks are read anew at every step.
    """

    def __init__(self, denoiser: Denoiser, engine: Engine | None = None, cached: bool = True) -> None:
        assert denoiser.blocks is not None
        self.denoiser, self.cached, self.size = denoiser, cached, denoiser.blocks.size
        self.trunk = denoiser.trunk if engine is None else engine.trunk
        self.head = denoiser.head if engine is None else engine.head
        # a window that is one block sees nothing else, as in training
        self.alone = denoiser.config is not None and denoiser.config.length == self.size
        self.memory = Memory()
        self.tokens: Tokens | None = None  # clean, of the blocks that are seen

    def extend(self, tokens: Tokens) -> None:
        self.tokens = tokens if self.tokens is None else torch.cat([self.tokens, tokens], 1)

    def select(self, rows: Int[Tensor, "N"]) -> None:
        self.tokens = None if self.tokens is None else self.tokens.index_select(0, rows)
        self.memory.select(rows)

    def restart(self, tokens: Tokens) -> None:
        self.memory, self.tokens = Memory(), tokens

    def __call__(self, state: State, label: Labels | None = None) -> Prediction:
        if not self.cached:
            self.memory = Memory()
        written = 0 if self.tokens is None else self.tokens.shape[1] // self.size
        if self.tokens is not None and written > self.memory.blocks and not self.alone:
            self._read_clean(self.tokens[:, self.memory.blocks * self.size :], state, label)
            self.memory.blocks = written
        method, condition = self.denoiser.method, self.denoiser.label_embedding(state.tokens, label)
        joined = None
        if not self.alone:
            joined = Joined(Pattern(self.size, range(written, written + 1), range(0)), self.memory)
        features = self.trunk(method.embed(state), self.denoiser.time_input(state), condition, joined)
        found = features.to(self.head.weight.dtype)
        return Prediction(found, self.head, self.denoiser.vocab_size, ~state.known)

    def _read_clean(self, tokens: Tokens, state: State, label: Labels | None) -> None:
        """Keep keys and values of the next blocks [B, n b]."""
        first, count = self.memory.blocks, tokens.shape[1] // self.size
        time, condition = self.denoiser.time_of_clean(state), self.denoiser.label_embedding(tokens, label)
        self.trunk(
            self.denoiser.method.embedding.lookup(tokens.reshape(-1, self.size)),
            time.repeat_interleave(count, 0),
            None if condition is None else condition.repeat_interleave(count, 0),
            Joined(Pattern(self.size, range(0), range(first, first + count)), self.memory),
        )


def sample_blocks(
    readers: Sequence[Reader], denoise: Denoise, step: Step, state: State, timesteps: Float[Tensor, "T"],
    rngs: Callable[[int, Int[Tensor, "N"]], Rng], size: int, *, window: int | None = None,
    ended: Callable[[Tokens, Mask], Bool[Tensor, "N"]] | None = None, fill: int = 0,
) -> Iterator[SampleStep]:  # fmt: skip
    """A walk for each block of z_1, whose prompt is in place; states are whole, and later blocks in them still noise.

    `rngs` gives the random numbers of a block and of the rows that are still written; those that have `ended` (by
    their tokens, and which of them were given) are filled with `fill` and go on no further. Where a text grows longer
    than `window`, its older half is forgotten.
    """
    count, given = len(state.known), state.known
    times = timesteps.to(state.t)[1:]
    rows, seen = torch.arange(count, device=given.device), 0
    for number, start in enumerate(range(0, given.shape[1], size)):
        stop = start + size
        block = _columns(state, rows, start, stop)
        if not bool(block.known.all()):
            rng = rngs(number, rows)
            for s in times:
                one, later = advance(denoise, step, block, s.repeat(len(rows)), rng)
                yield _whole(state, one, rows, start)
                block = later
        state = _written(state, block, rows, start)
        for reader in readers:
            reader.extend(block.tokens)
        seen += size
        if ended is not None and stop < given.shape[1]:
            # where given tokens are still to come the text is not over
            going = ~ended(state.tokens[rows, :stop], given[rows, :stop]) | given[rows, stop:].any(-1)
            if not bool(going.all()):
                state = _filled(state, rows[~going], stop, fill)
                rows = rows[going]
                for reader in readers:
                    reader.select(going.nonzero()[:, 0])
        if not len(rows):
            break
        if window is not None and seen + size > window:
            seen = window // 2 // size * size if window > size else 0
            for reader in readers:
                reader.restart(state.tokens[rows, stop - seen : stop])
    yield SampleStep(state, None, final=given.shape[1])


def _columns(state: State, rows: Int[Tensor, "N"], start: int, stop: int) -> State:
    """Some positions of some rows as a state of its own, at the beginning of its walk."""

    def cut(values: Tensor | None) -> Tensor | None:
        return None if values is None else values.index_select(0, rows)[:, start:stop]

    known, tokens = state.known.index_select(0, rows)[:, start:stop], state.tokens.index_select(0, rows)[:, start:stop]
    noise_t = None if state.noise_t is None else torch.ones_like(state.t)[rows]
    return State(torch.ones_like(state.t)[rows], known, tokens, cut(state.values), cut(state.given), noise_t)


def _written(state: State, block: State, rows: Int[Tensor, "N"], start: int) -> State:
    """The state with a block in its place."""

    def put(into: Tensor, values: Tensor) -> Tensor:
        into = into.clone()
        into[rows, start : start + values.shape[1]] = values.to(into)
        return into

    values = state.values
    if values is not None and block.values is not None:
        values = put(values, block.values)
    t = state.t.index_copy(0, rows, block.t)
    noise_t = state.noise_t
    if noise_t is not None and block.noise_t is not None:
        noise_t = noise_t.index_copy(0, rows, block.noise_t)
    return replace(
        state, t=t, known=put(state.known, block.known), tokens=put(state.tokens, block.tokens), values=values,
        noise_t=noise_t,
    )  # fmt: skip


def _filled(state: State, rows: Int[Tensor, "N"], start: int, token: int) -> State:
    """What comes after the end of rows."""
    known, tokens = state.known.clone(), state.tokens.clone()
    known[rows, start:], tokens[rows, start:] = True, token
    return replace(state, known=known, tokens=tokens)


def _whole(state: State, step: SampleStep, rows: Int[Tensor, "N"], start: int) -> SampleStep:
    """A step of a block as one of the whole sequence, made when it is looked at."""
    block = step.state

    def prediction() -> Prediction | None:
        found = step.prediction
        if found is None:
            return None
        shape = state.known.shape

        def widened(values: Tensor) -> Tensor:
            wide = values.new_zeros(*shape, *values.shape[2:])
            wide[rows, start : start + values.shape[1]] = values
            return wide

        shift = None if found.shift is None else widened(found.shift)
        open = OpenPositions(widened(found.open))
        return Prediction(widened(found.features), found.readout, found.vocab_size, open, shift)

    return SampleStep(lambda: _written(state, block, rows, start), prediction, final=start)
