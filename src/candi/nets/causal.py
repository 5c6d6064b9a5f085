"""Left to right: a causal denoiser that remembers what it has read, and trajectories whose steps are one CUDA graph."""

from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from candi.base.rng import Kind, Rng
from candi.base.types import Labels, Times
from candi.diffusion.prediction import Prediction
from candi.diffusion.sampler import Denoise, SampleStep, Step, advance, sample
from candi.diffusion.state import State
from candi.nets.denoiser import Denoiser
from candi.nets.engine import Engine
from candi.nets.trunk import Cache, FixedCache

_FEW = 8  # steps for which a graph is not worth recording


class KVCachedDenoiser:
    """A denoiser for one causal trajectory that keeps the keys and values of all positions read so far.

    With an `engine` its trunk and head are taken, which are rounded and may be compiled.
    """

    def __init__(self, denoiser: Denoiser, cache: Cache, engine: Engine | None = None) -> None:
        self.denoiser, self.cache = denoiser, cache
        self.trunk = denoiser.trunk if engine is None else engine.trunk
        self.head = denoiser.head if engine is None else engine.head
        self._one = self.trunk if engine is None else engine.one_position
        self.fixed: FixedCache | None = None

    def __call__(self, state: State, label: Labels | None = None) -> Prediction:
        """Only the prediction at the next position means anything; it is shown at all."""
        time, condition = self.denoiser.time_input(state), self.denoiser.label_embedding(state.tokens, label)
        if self.fixed is not None:
            self.fixed.position.copy_(state.next_positions[:1])
            features = self._one(self._vector(state, self.fixed.position), time, condition, self.fixed)
        else:
            vectors = self.denoiser.method.embed(state)[:, self.cache.length : state.next_position + 1]
            features = self.trunk(vectors, time, condition, self.cache)
        everywhere = features[:, -1:].to(self.head.weight.dtype).expand(-1, state.known.shape[1], -1)
        return Prediction(everywhere, self.head, self.denoiser.vocab_size, ~state.known)

    def _vector(self, state: State, position: Tensor) -> Float[Tensor, "B 1 D"]:
        """What the trunk sees at a position, which is told by the device."""
        method = self.denoiser.method
        if method.looks_back is None:
            return method.embed(state).index_select(1, position)
        window = (position + torch.arange(-method.looks_back, 1, device=position.device)).clamp(min=0)
        part = State(state.t, state.known.index_select(1, window), state.tokens.index_select(1, window))
        return method.embed(part)[:, -1:]

    def fix(self, size: int) -> bool:
        """From now on one position at a time, in tensors that stay where they are; False if the cache cannot."""
        self.fixed = self.cache.fixed(size)
        return self.fixed is not None


def sample_causally(
    networks: Sequence[KVCachedDenoiser], denoise: Denoise, step: Step, state: State, timesteps: Float[Tensor, "T"],
    rng: Rng, graph: bool = True,
) -> Iterator[SampleStep]:  # fmt: skip
    """What `sample` yields, to the last token; once the prompt is read, each step is one CUDA graph.

    `networks` are those in `denoise`. Without `graph` the same steps run one by one.
    """
    times, index = timesteps.to(state.t)[:, None].repeat(1, len(state.t)), 0
    steps, size = len(times) - 1, state.known.shape[1]
    while index < steps and not (index and all(network.cache.length == index for network in networks)):
        seen, state = advance(denoise, step, state, times[index + 1], rng)
        index += 1
        yield seen
    fixed = steps - index >= _FEW and all(network.fix(size) for network in networks)
    if not fixed:
        yield from sample(denoise, step, state, times[index:, 0], rng)
        return
    recorded = _Recorded(denoise, step, state, times[index + 1], rng, graph)
    for t, s in zip(times[index:-1], times[index + 1 :], strict=True):
        yield SampleStep(state, recorded(t, s))
        state = recorded.state(s)
    yield SampleStep(state, None)


class _Recorded:
    """A step in places of memory that stay the same: recorded once, replayed for every position."""

    def __init__(self, denoise: Denoise, step: Step, state: State, s: Times, rng: Rng, graph: bool) -> None:
        self._denoise, self._step, self._numbers = denoise, step, _Refilled(rng)
        self._state = State(state.t.clone(), state.known.clone(), state.tokens.clone())
        self._s = s.clone()
        self._graph = torch.cuda.CUDAGraph() if graph else None
        if self._graph is None:
            self._run()  # what random numbers it takes
        else:
            aside = torch.cuda.Stream()
            aside.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(aside):  # compiles, and lets the libraries choose what they will use
                for _ in range(2):
                    self._run()
            torch.cuda.current_stream().wait_stream(aside)
            with torch.cuda.graph(self._graph):
                self._run()
        self._state.known.copy_(state.known)
        self._state.tokens.copy_(state.tokens)

    def __call__(self, t: Times, s: Times) -> Prediction:
        self._state.t.copy_(t)
        self._s.copy_(s)
        self._numbers.refill()
        before = ~self._state.known
        if self._graph is None:
            self._run()
        else:
            self._graph.replay()
        found = self._prediction
        return Prediction(found.features[:, :1].clone().expand(-1, before.shape[1], -1), found.readout,
                          found.vocab_size, before, found.shift)  # fmt: skip

    def state(self, t: Times) -> State:
        return State(t, self._state.known.clone(), self._state.tokens.clone())

    @torch.no_grad()
    def _run(self) -> None:
        self._numbers.rewind()
        seen, later = advance(self._denoise, self._step, self._state, self._s, self._numbers)
        # where a step draws nothing, a given token is read all the same
        self._prediction = seen.prediction or self._denoise(self._state)
        self._state.known.copy_(later.known)
        self._state.tokens.copy_(later.tokens)


class _Refilled(Rng):
    """The random numbers of a step, always in the same places; those of the next step are put there before it."""

    def __init__(self, rng: Rng) -> None:
        super().__init__(rng._streams)
        self._places: list[tuple[Tensor, Kind]] = []
        self._next = 0

    def rewind(self) -> None:
        self._next = 0

    def refill(self) -> None:
        for place, kind in self._places:
            self._streams.fill(place, kind)

    def _filled(self, shape: tuple[int, ...], dtype: torch.dtype, kind: Kind) -> Tensor:
        if self._next == len(self._places):
            self._places.append((torch.full(shape, 0.5, dtype=dtype, device=self.device), kind))
        self._next += 1
        return self._places[self._next - 1][0]
