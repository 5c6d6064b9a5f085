"""A network made ready to sample on a GPU."""

import copy
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from candi.base.types import Hidden, Labels, Mask, Times, Tokens, Values
from candi.diffusion.prediction import Prediction
from candi.diffusion.state import State
from candi.nets.denoiser import Denoiser, Features
from candi.nets.fp8 import eight_bit

_REPLAYED = 2**14  # tokens in a batch; above, kernels are long and a graph's small gaps between them cost more


class Engine:
    """The denoiser with its trunk and head rounded to bf16 once, for as many states as are wanted.

    With `fp8` the products of the trunk's blocks are in 8 bits. Token vectors, noise and values stay in float32.
    Compiled, embedding and trunk become few kernels. A small batch is over before the CPU has launched them: there they
    are recorded as one CUDA graph for each shape and replayed.
    """

    def __init__(self, denoiser: Denoiser, compile: bool, fp8: bool = False) -> None:
        self.vocab_size = denoiser.vocab_size
        self.head = copy.deepcopy(denoiser.head).to(torch.bfloat16)
        self.trunk = denoiser.trunk.rounded(torch.bfloat16)
        if fp8:
            eight_bit(self.trunk)
        run = denoiser.features_by(self.trunk)
        self._features: Features = Replayed(_compiled(run), _REPLAYED) if compile else run
        # of a causal trajectory, whose features are those of one position at a time
        self.one_position: Callable[..., Tensor] = torch.compile(self.trunk) if compile else self.trunk

    def __call__(self, state: State, label: Labels | None = None) -> Prediction:
        features = self._features(state.t, state.known, state.tokens, state.values, state.noise_t, label)
        return Prediction(features, self.head, self.vocab_size, ~state.known)


def _compiled(function: Features) -> Features:
    # the compiler's first guess at a block size is far off for sums over the width: let it try some
    return torch.compile(function, options={"coordinate_descent_tuning": True})


@dataclass(frozen=True)
class _Recording:
    graph: torch.cuda.CUDAGraph
    inputs: tuple[Tensor | None, ...]
    output: Tensor


class Replayed:
    """A function of a state's tensors as CUDA graphs, one for each shape of at most `most` tokens."""

    def __init__(self, function: Features, most: int) -> None:
        self.function, self.most = function, most
        self.recordings: dict[tuple[object, ...], _Recording] = {}

    def __call__(
        self, t: Times, known: Mask, tokens: Tokens, values: Values | None, noise_t: Times | None, label: Labels | None
    ) -> Hidden:
        inputs = (t, known, tokens, values, noise_t, label)
        if tokens.numel() > self.most:
            return self.function(*inputs)
        key = tuple(None if tensor is None else (tensor.shape, tensor.dtype) for tensor in inputs)
        if key not in self.recordings:
            self.recordings[key] = self._record(inputs)
        recording = self.recordings[key]
        for place, given in zip(recording.inputs, inputs, strict=True):
            if place is not None and given is not None:
                place.copy_(given)
        recording.graph.replay()
        return recording.output.clone()  # the next replay writes there again

    def _record(self, inputs: tuple[Tensor | None, ...]) -> _Recording:
        places = tuple(None if tensor is None else tensor.clone() for tensor in inputs)
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):  # compiles, and lets the libraries choose what they will use
            for _ in range(2):
                self.function(*places)  # type: ignore[arg-type]
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            output = self.function(*places)  # type: ignore[arg-type]
        return _Recording(graph, places, output)
