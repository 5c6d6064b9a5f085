"""Starting from trained weights: those of a run, or of a published checkpoint that was imported."""

import dataclasses

import torch
from torch import Tensor

from candi.base.errors import UserError
from candi.diffusion.embeddings import TokenEmbedding
from candi.model.model import Model
from candi.nets.config import ModelConfig
from candi.nets.denoiser import Denoiser
from candi.nets.dit import DiTSettings
from candi.training.settings import PARTS, TrainSettings

# what a network may have that its source has not: it begins as it is made, or as said below
_NEW = (
    "trunk.front",
    "trunk.timestep_embedder.",
    "method.embedding.mask",
    "method.gate",
    "method.vector_size",
    "method.level.",
    "method.frequencies",
    "labels.",
)


def started_config(settings: TrainSettings, source: ModelConfig) -> ModelConfig:
    """The source's network and vocabulary, with the method and the length that are asked for.

    A source that writes in blocks goes on in its blocks, unless others are asked for.
    """
    if settings.trunk not in ("dit", source.trunk) or settings.model not in (DiTSettings(), source.model):
        raise UserError(
            f"The network is that of --init {settings.init}: {source.trunk}, {source.model.width} wide; leave out "
            "--trunk and the flags of the model."
        )
    method = settings.method_settings.build(TokenEmbedding(2, 2))  # what it declares is asked, nothing else
    causal = source.build_method(2).causal and not method.causal
    network = source.model.started_from(causal, method.time_conditioned)
    return dataclasses.replace(
        settings.model_config(source.vocab_size), trunk=source.trunk, model=network,
        unit_vectors=source.unit_vectors, settings=settings.method_settings.started_from(source.settings),
        block=settings.block or (None if method.causal else source.block),
    )  # fmt: skip


@torch.no_grad()
def start_from(denoiser: Denoiser, source: Model) -> frozenset[str]:
    """The weights of the source, whatever its method. Returns the names of those that the source has.

    A mask vector that the source lacks begins as the mean token vector. A network that was never told the time begins
    as if it were always 0.
    """
    theirs, weights = source.denoiser.state_dict(), denoiser.state_dict()
    missing = [
        name for name, tensor in weights.items()
        if not name.startswith(_NEW) and (name not in theirs or theirs[name].shape != tensor.shape)
    ]  # fmt: skip
    if missing:
        raise UserError(
            f"The network cannot start from the source: {missing[0]} is missing there, or of another shape."
        )
    taken = {name: theirs[name] for name, tensor in weights.items() if _fits(theirs.get(name), tensor)}
    old = set(taken)
    table = theirs["method.embedding.weight"]
    if "method.embedding.mask" in weights and "method.embedding.mask" not in taken:
        taken["method.embedding.mask"] = table.mean(0)
    if source.denoiser.method.causal and not denoiser.method.causal:
        # its first position saw a vector of its own, which now stands in front; a mask is another thing
        if "trunk.front" in weights:
            taken["trunk.front"] = theirs["method.embedding.mask"]
        if "method.embedding.mask" in weights:
            taken["method.embedding.mask"] = table.mean(0)
            old.discard("method.embedding.mask")
    if "method.vector_size" in weights and "method.vector_size" not in taken:
        taken["method.vector_size"] = table.norm(dim=-1).mean()
    denoiser.load_state_dict({**weights, **taken})
    if denoiser.method.time_conditioned and not source.denoiser.method.time_conditioned:
        denoiser.trunk.ignore_time()
    return frozenset(old)


def rates(settings: TrainSettings, old: frozenset[str]) -> dict[str, float]:
    """Fractions of the learning rate for the weights that the source had: 0 in the parts that are frozen."""
    frozen = tuple(PARTS[part] for part in settings.frozen)
    return {name: 0.0 if name.startswith(frozen) else settings.init_rate for name in old}


def _fits(theirs: Tensor | None, ours: Tensor) -> bool:
    return theirs is not None and theirs.shape == ours.shape
