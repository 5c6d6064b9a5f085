"""The forward and backward pass of a step as one CUDA graph: small models end before the host has launched them."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from candi.training.loader import MicroBatch

_TOKENS = 2**15  # in a batch; above, kernels are long enough to hide their launch


def worth_recording(micro_batches: Sequence[MicroBatch]) -> bool:
    """Whether a step is one small batch on a GPU."""
    first = micro_batches[0].x0
    return len(micro_batches) == 1 and first.is_cuda and first.numel() <= _TOKENS


class RecordedGradients:
    """Loss and gradients of micro-batches of one shape. Inputs and random seeds are put into fixed places, and the

    graph is replayed. What the host decides in a step (a curriculum, say) would stay as it was recorded.
    """

    def __init__(
        self, backward: Callable[[MicroBatch], Tensor], parameters: Sequence[Tensor], first: MicroBatch
    ) -> None:
        self._parameters = parameters
        label, given = (None if tensor is None else tensor.clone() for tensor in (first.label, first.given))
        self._place = MicroBatch(
            first.x0.clone(), first.row, first.rows, first.rng.copy(), label, given, first.learned
        )  # fmt: skip
        before = torch.cuda.get_rng_state()
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):  # compiles, and lets the libraries choose what they will use
            for _ in range(3):
                self._forget()
                self._place.rng.follow(first.rng)
                backward(self._place)
        torch.cuda.current_stream().wait_stream(aside)
        self._forget()
        self._place.rng.follow(first.rng)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._loss = backward(self._place)
        self._gradients = [parameter.grad for parameter in parameters]
        torch.cuda.set_rng_state(before)

    def fits(self, micro: MicroBatch) -> bool:
        place = self._place
        alike = [(one is None) == (two is None) for one, two in zip(_parts(micro), _parts(place), strict=True)]
        return micro.x0.shape == place.x0.shape and all(alike)

    def __call__(self, micro: MicroBatch) -> Tensor:
        """The loss; the gradients are where an optimizer looks for them."""
        place = self._place
        place.x0.copy_(micro.x0)
        for here, there in zip(_parts(place), _parts(micro), strict=True):
            if here is not None and there is not None:
                here.copy_(there)
        place.rng.follow(micro.rng)
        self._graph.replay()
        for parameter, gradient in zip(self._parameters, self._gradients, strict=True):
            parameter.grad = gradient
        return self._loss

    def _forget(self) -> None:
        for parameter in self._parameters:
            parameter.grad = None


def _parts(micro: MicroBatch) -> tuple[Tensor | None, ...]:
    """What a micro-batch may have beside its tokens."""
    return micro.label, micro.given
