"""One device or many, through Lightning Fabric."""

import logging
import os
import warnings
from typing import Literal

import torch
from lightning.fabric import Fabric
from lightning.fabric.plugins.environments.slurm import SLURMEnvironment
from lightning.fabric.plugins.environments.torchelastic import TorchElasticEnvironment
from lightning.fabric.strategies.ddp import DDPStrategy
from lightning.fabric.strategies.model_parallel import ModelParallelStrategy
from lightning.fabric.strategies.strategy import Strategy
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, Shard

from candi.base.errors import UserError
from candi.base.shards import TensorFile, rows_of
from candi.nets.fp8 import need_eight_bits
from candi.training.objective import Objective
from candi.training.settings import FitSettings

# as Fabric calls them
_PRECISIONS: dict[str, Literal["32-true", "bf16-mixed", "64-true"]] = {
    "float32": "32-true",
    "bf16": "bf16-mixed",
    "fp8-mixed": "bf16-mixed",  # with another kind of linear layers
    "float64": "64-true",
}


def connect(settings: FitSettings) -> Fabric:
    """The Fabric of a run; its processes are not launched yet."""
    for name in ("lightning.fabric", "lightning.pytorch"):
        logging.getLogger(name).setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", ".*ModelParallelStrategy.*experimental.*")
    kind = accelerator(settings)
    devices = _count(settings, kind)
    world = devices * settings.nodes
    _check_launcher(devices, settings.nodes)
    if settings.batch_size % world:
        raise UserError(f"A batch of {settings.batch_size} cannot be shared by {world} devices; make it a multiple.")
    share = settings.batch_size // world
    if settings.micro_batch_size is not None and share % settings.micro_batch_size:
        raise UserError(
            f"A device's share of {share} sequences cannot be cut into micro-batches of {settings.micro_batch_size}; "
            "choose a divisor."
        )
    precision = settings.precision if settings.precision != "auto" else "bf16" if kind == "cuda" else "float32"
    if precision == "fp8-mixed":
        need_eight_bits(kind)
    if kind == "cuda":
        torch.set_float32_matmul_precision("high")
    if kind == "cuda" and settings.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # what cuBLAS needs for it
        warnings.filterwarnings("ignore", ".*(does not have a|defaults to a non-)deterministic.*")
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined] # nothing reads it
    return Fabric(
        accelerator=kind,
        devices=devices,
        num_nodes=settings.nodes,
        strategy=_strategy(settings, world),
        precision=_PRECISIONS[precision],
    )


def accelerator(settings: FitSettings) -> str:
    """The kind of device that a run is trained on."""
    # Apple's GPUs have no float64, which the schedules and the draws need
    present = {"cuda": torch.cuda.is_available(), "cpu": True}
    if settings.device == "auto":
        return next(name for name, there in present.items() if there)
    if not present[settings.device]:
        raise UserError(f"There is no {settings.device} device on this machine; leave out --device.")
    return settings.device


def _available(accelerator: str) -> int:
    return torch.cuda.device_count() if accelerator == "cuda" else 1


def on_each_node(settings: FitSettings, accelerator: str) -> int:
    """Devices that are asked for on each node."""
    if settings.devices == "auto":
        return _available(accelerator)
    if settings.devices < 1:
        raise UserError(f"--devices must be auto or at least 1, not {settings.devices}.")
    return settings.devices


def all_here(settings: FitSettings) -> bool:
    """Whether all devices can be used at once by this command, alone or as a launcher has started it."""
    kind = accelerator(settings)
    launched = _launcher() is not None or {"NODE_RANK", "LOCAL_RANK"} & set(os.environ)
    enough = kind == "cpu" or on_each_node(settings, kind) <= _available(kind)
    return enough and (settings.nodes == 1 or bool(launched))


def _count(settings: FitSettings, accelerator: str) -> int:
    count = on_each_node(settings, accelerator)
    if accelerator == "cuda" and count > _available(accelerator):
        raise UserError(f"{count} devices were asked for but there are {_available(accelerator)}.")
    return count


def _launcher() -> tuple[str, int] | None:
    """What has started this process as one of several, and of how many."""
    if TorchElasticEnvironment.detect():
        return "torchrun", int(os.environ["WORLD_SIZE"])
    return ("srun", int(os.environ["SLURM_NTASKS"])) if SLURMEnvironment.detect() else None


def _check_launcher(devices: int, nodes: int) -> None:
    """Refuse processes that would not be those of one run: each would train alone."""
    launcher, started = _launcher() or ("", devices * nodes)
    if started != devices * nodes:
        raise UserError(
            f"{launcher} has started {started} processes, but --nodes {nodes} with --devices {devices} on each make "
            f"{devices * nodes}; let the two agree."
        )


def _strategy(settings: FitSettings, world: int) -> Strategy | str:
    if settings.strategy == "fsdp":
        return ModelParallelStrategy(_shard, data_parallel_size=world, tensor_parallel_size=1)
    if settings.strategy == "ddp" or world > 1:
        return DDPStrategy()
    return "auto"


def _shard(module: nn.Module, mesh: DeviceMesh) -> nn.Module:
    """FSDP2: the units that the trunk declares, and the rest (token vectors, head) as another."""
    shards = mesh["data_parallel"]
    assert isinstance(module, Objective)
    for part in module.sharding_units():
        fully_shard(part, mesh=shards)
    fully_shard(module, mesh=shards)
    return module


def gathered(tensor: Tensor) -> Tensor:
    """The full tensor, put together from its shards if it has any (then every process must ask)."""
    tensor = tensor.detach()
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def own_rows(tensor: Tensor) -> tuple[Tensor, int, int]:
    """The rows of a tensor that this process has, the number of the first and the one after the last."""
    if not isinstance(tensor, DTensor):
        return tensor, 0, len(tensor) if tensor.dim() else 1
    assert tensor.placements == (Shard(0),)  # as FSDP cuts all of them
    start, stop = rows_of(len(tensor), tensor.device_mesh.get_local_rank(), tensor.device_mesh.size())
    local = tensor.to_local()
    assert len(local) == stop - start
    return local, start, stop


def fill(tensor: Tensor, source: TensorFile, name: str) -> None:
    """Read this process's rows of a tensor, and no others."""
    rows, start, stop = own_rows(tensor)
    rows.copy_(source.rows(name, start, stop) if tensor.dim() else source[name])


def reshard(module: nn.Module) -> None:
    """After weights were written: drop the gathered copies that FSDP keeps for the parts outside its units."""
    for part in module.modules():
        if isinstance(part, FSDPModule):
            part.reshard()
