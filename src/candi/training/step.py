"""Network, optimizer and averaged weights: one step of training, and all its tensors by name."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from lightning.fabric import Fabric
from torch import Tensor, nn
from torch._dynamo.exc import TorchDynamoException

from candi.base.errors import UserError
from candi.base.shards import TensorFile
from candi.training.devices import fill, gathered, reshard
from candi.training.ema import EMA
from candi.training.loader import MicroBatch
from candi.training.memory import Allocated, MemoryNeed, NoMemoryLeft, out_of_memory
from candi.training.objective import Objective
from candi.training.optim import Groups, adamw, learning_rate
from candi.training.pieces import Pieces
from candi.training.recorded import RecordedGradients, worth_recording
from candi.training.settings import FitSettings

OptimizerFactory = Callable[[Groups, FitSettings, torch.device], torch.optim.Optimizer]
_MOMENTS = ("exp_avg", "exp_avg_sq")


@dataclass(frozen=True)
class StepResult:
    loss: Tensor
    gradient_norm: Tensor


class TrainStep:
    """A network that is trained, on this process's devices. What is done here, every process does."""

    def __init__(
        self, network: nn.Module, objective: Objective, settings: FitSettings, fabric: Fabric,
        optimizer: OptimizerFactory = adamw, rates: Mapping[str, float] | None = None,
    ) -> None:  # fmt: skip
        """`network` is the part of the objective that is kept: its weights are known by its names.

        `rates` are fractions of the learning rate for weights by name; 0 leaves them as they are.
        """
        self.settings, self.fabric, self._objective = settings, fabric, objective
        self._network = network
        self.names = [name for name, _ in network.named_parameters()]
        first = {id(parameter): name for name, parameter in reversed(list(network.named_parameters()))}
        every = network.named_parameters(remove_duplicate=False)
        self._tied = {name: first[id(parameter)] for name, parameter in every if name != first[id(parameter)]}
        rates = rates or {}
        for name, parameter in network.named_parameters():
            parameter.requires_grad_(parameter.requires_grad and rates.get(name, 1.0) > 0)
        self.objective = fabric.setup(objective)
        self.parameters = list(self.objective.parameters())
        assert len(self.names) == len(self.parameters)
        self._groups = self._by_rate(rates)
        self.optimizer = optimizer(
            [{"params": [self.parameters[i] for i in places], "rate": rate} for rate, places in self._groups.items()],
            settings, fabric.device,
        )  # fmt: skip
        wrapped = fabric.setup_optimizers(self.optimizer)
        assert not isinstance(wrapped, tuple)
        self.wrapped = wrapped
        self.ema = EMA(self.parameters, settings.ema)
        if settings.strategy != "fsdp":
            objective.follow(self._averages)
        self._recorded: RecordedGradients | None = None

    def _by_rate(self, rates: Mapping[str, float]) -> dict[float, list[int]]:
        """Places of the parameters by their fraction of the learning rate."""
        groups: dict[float, list[int]] = {}
        for place, name in enumerate(self.names):
            groups.setdefault(rates.get(name, 1.0), []).append(place)
        return groups

    def update(self, step: int, micro_batches: Sequence[MicroBatch]) -> StepResult:
        """One optimizer step over all micro-batches. Nothing here waits for the device."""
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.settings, step) * group["rate"]
        if not self.objective.training:  # it asks every layer
            self.objective.train()
        self._objective.begin_step(step / self.settings.steps)
        total = self._replayed(micro_batches[0]) if self._recordable(micro_batches) else self._summed(micro_batches)
        norm = self.fabric.clip_gradients(
            self.objective, self.wrapped, max_norm=self.settings.clip, error_if_nonfinite=False
        )
        assert norm is not None
        self.wrapped.step()
        self.optimizer.zero_grad()
        self.ema.update(step)
        return StepResult(total, gathered(norm))

    def _summed(self, micro_batches: Sequence[MicroBatch]) -> Tensor:
        """The loss; its gradient is added up over the micro-batches."""
        total = torch.zeros((), device=self.fabric.device)
        for index, micro in enumerate(micro_batches):
            last = index == len(micro_batches) - 1
            with nullcontext() if last else self.fabric.no_backward_sync(self.objective):
                total += self._backward(micro, len(micro_batches))
        return total

    def _backward(self, micro: MicroBatch, parts: int = 1) -> Tensor:
        loss = self._losses(micro).mean() / parts
        self.fabric.backward(loss)
        return loss.detach()

    def _recordable(self, micro_batches: Sequence[MicroBatch]) -> bool:
        wanted = self.settings.record if self.settings.record is not None else worth_recording(micro_batches)
        alone = self.fabric.world_size == len(micro_batches) == 1
        return wanted and alone and micro_batches[0].x0.is_cuda and self._objective.recordable

    def _replayed(self, micro: MicroBatch) -> Tensor:
        if self._recorded is None or not self._recorded.fits(micro):
            self._recorded = RecordedGradients(self._backward, self.parameters, micro)
        return self._recorded(micro).clone()

    def discard_step(self) -> None:
        """Drop what a step that ran out of memory has left behind."""
        self.optimizer.zero_grad()
        self._recorded = None
        if self.fabric.device.type == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()  # what was needed is what the next try needs

    def memory_need(self, micro: Callable[[int], MicroBatch], most: int, limit: int) -> MemoryNeed:
        """What a step needs of memory, from micro-batches of one sequence and of two. No weight is changed."""
        buffers = {name: buffer.clone() for name, buffer in self._network.named_buffers()}
        self.objective.train()
        self._objective.begin_step(0.0)
        peaks = {}
        try:
            self._peak(micro(1), limit)  # makes the gradients, to which the others add
            for size in (1, 2):
                if size <= most:
                    peaks[size] = self._peak(micro(size), limit)
        except NoMemoryLeft:
            if not peaks:
                raise
        finally:
            self.optimizer.zero_grad()
            for name, buffer in self._network.named_buffers():
                buffer.copy_(buffers[name])
        gradients_and_moments = (1 + len(_MOMENTS)) * sum(parameter.nbytes for parameter in self.parameters)
        return MemoryNeed.from_peaks(gradients_and_moments, peaks)

    def _peak(self, micro: MicroBatch, limit: int) -> int:
        try:
            with Allocated(limit) as made:
                self.fabric.backward(self._losses(micro).mean())
        except RuntimeError as error:
            if out_of_memory(error):
                raise NoMemoryLeft from error
            raise
        return made.peak

    @torch.no_grad()
    def validate(self, micro_batches: Iterable[MicroBatch]) -> tuple[Tensor, Tensor]:
        """Sum and count of this process's losses under the averaged weights."""
        self.objective.eval()
        sums = torch.zeros(2, device=self.fabric.device)
        with self.ema.applied(self._weights_written):
            for micro in micro_batches:
                losses = self._losses(micro)
                sums += torch.stack([losses.sum(), losses.new_tensor(losses.numel())])
        return sums[0], sums[1]

    def _weights_written(self) -> None:
        reshard(self.objective)
        self._objective.invalidate_caches()

    def _losses(self, micro: MicroBatch) -> Tensor:
        try:
            losses: Tensor = self.objective(micro.x0, micro.row, micro.rows, micro.rng, micro.label, micro.given)
        except TorchDynamoException as error:
            reason = str(error).strip().splitlines()[0]
            raise UserError(f"torch.compile does not work here ({reason}); leave out --compile.") from error
        return losses if micro.learned == 1 else losses / micro.learned  # nats of a token that is learned

    def averaged(self) -> dict[str, Tensor]:
        """The averaged weights, whole and on the CPU, with buffers, and tied weights under all their names."""
        weights = _whole(self._averages())
        return weights | self._buffers() | {name: weights[first].clone() for name, first in self._tied.items()}

    def _averages(self) -> dict[str, Tensor]:
        return dict(zip(self.names, self.ema.shadow, strict=True))

    def _buffers(self) -> dict[str, Tensor]:
        """What a network keeps beside its weights."""
        named = {*self.names, *self._tied}
        kept = {name: tensor for name, tensor in self._network.state_dict().items() if name not in named}
        return {name: tensor.detach().cpu().clone() for name, tensor in kept.items()}

    def training(self) -> dict[str, Tensor]:
        """The weights themselves and the optimizer's moments, whole and on the CPU."""
        return _whole(self._optimized())

    def _optimized(self) -> dict[str, Tensor]:
        groups: dict[str, Sequence[Tensor]] = {"weight": self.parameters}
        for key in _MOMENTS:
            # a parameter that never had a gradient has no moments
            states = [(parameter, self.optimizer.state.get(parameter, {})) for parameter in self.parameters]
            groups[key] = [state.get(key, torch.zeros_like(parameter)) for parameter, state in states]
        return {
            f"{group}/{name}": tensor
            for group, tensors in groups.items()
            for name, tensor in zip(self.names, tensors, strict=True)
        }

    def pieces(self) -> tuple[Pieces, Pieces]:
        """The same two, `averaged` and `training`, as they lie on the processes."""
        return Pieces(self._averages(), self._buffers(), self._tied), Pieces(self._optimized())

    @torch.no_grad()
    def restore(self, step: int, averaged: TensorFile, training: TensorFile) -> None:
        state = {}
        order = [place for places in self._groups.values() for place in places]  # in which the optimizer counts them
        for index, place in enumerate(order):
            name, parameter, shadow = self.names[place], self.parameters[place], self.ema.shadow[place]
            fill(parameter, training, f"weight/{name}")
            fill(shadow, averaged, name)
            moments = {key: torch.zeros_like(parameter) for key in _MOMENTS}
            for key, moment in moments.items():
                fill(moment, training, f"{key}/{name}")
            state[index] = {"step": torch.tensor(float(step)), **moments}
        for name, buffer in self._network.named_buffers():
            if name in averaged:
                buffer.copy_(averaged[name])
        self.optimizer.load_state_dict({"state": state, "param_groups": self.optimizer.state_dict()["param_groups"]})


def _whole(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: gathered(tensor).cpu() for name, tensor in tensors.items()}
