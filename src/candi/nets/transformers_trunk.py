"""A network of the transformers library as a trunk: Llama, Qwen, GPT-2, BERT and their like, made to see both sides.

Its token vectors and its last layer belong to the method and to the head; what is here is all between them.
"""

import copy
import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from candi.base.errors import UserError, extra
from candi.base.precision import working_dtype
from candi.base.types import Hidden, Times
from candi.diffusion.embeddings import TimestepEmbedder
from candi.nets.blocks import Joined
from candi.nets.trunk import Trunk, TrunkSettings


@dataclass(frozen=True)
class TransformersSettings(TrunkSettings):
    """A network of the transformers library.

    Args:
        width: Hidden width; also the dimension of the token vectors.
        architecture: Its config.json, as one text.
        shift: Whether the prediction of a position is read from the feature of the one before it, as a causal language
            model has learned to: no; front, where a vector stands before the first; or repeat, where the first is read
            from itself. Where the method is causal it sees to that itself.
        time: Add the embedded time to every vector; it begins as 0.
        transform: Whether the layers that a masked language model has before its last one belong to it (BERT and
            ModernBERT).
    """

    width: int = 64
    architecture: str = json.dumps({
        "model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 4,
    })  # fmt: skip
    shift: Literal["no", "front", "repeat"] = "no"
    time: bool = True
    transform: bool = False

    def started_from(self, causal: bool, time_conditioned: bool) -> "TransformersSettings":
        """A causal network has learned to predict the next token: that keeps its place. The time begins as 0."""
        shift = "front" if causal else self.shift
        return dataclasses.replace(self, shift=shift, time=self.time or time_conditioned)

    def build(self, causal: bool) -> "TransformersTrunk":
        return TransformersTrunk(self, causal)


class TransformersTrunk(Trunk):
    """Vectors [B, L, D] to the features that its last layer would read."""

    def __init__(self, settings: TransformersSettings, causal: bool) -> None:
        super().__init__()
        self.width, self.causal, self.conditioning = settings.width, causal, settings.width
        self.network, self.transform, ours = _network(settings, causal)
        shift = "no" if causal else settings.shift
        self.reads_blocks = ours and not causal and json.loads(settings.architecture).get("model_type") in _IN_BLOCKS
        self.front = nn.Parameter(torch.zeros(settings.width)) if shift == "front" else None
        self.repeat = shift == "repeat"
        self.timestep_embedder = TimestepEmbedder(settings.width, zero_init=True) if settings.time else None

    def forward(
        self, vectors: Hidden, time: Times, condition: Float[Tensor, "B D"] | None = None, cache: Any = None
    ) -> Hidden:
        """Time and condition are added to the vectors."""
        if self.timestep_embedder is not None:
            vectors = vectors + self.timestep_embedder(time)[:, None].to(vectors.dtype)
        if condition is not None:
            vectors = vectors + condition[:, None].to(vectors.dtype)
        if isinstance(cache, Joined):
            return self._read_blocks(vectors, cache)
        if self.front is not None:
            vectors = self._with_front(vectors)
        features = self._read(vectors, **({} if cache is None else {"past_key_values": cache.kept, "use_cache": True}))
        if self.repeat:
            return torch.cat([features[:, :1], features[:, :-1]], 1)
        return features if self.front is None else features[:, :-1]

    def _with_front(self, vectors: Hidden) -> Float[Tensor, "B one_more D"]:
        assert self.front is not None
        return torch.cat([self.front.to(vectors.dtype).expand(len(vectors), 1, -1), vectors], 1)

    def _read(self, vectors: Hidden, **more: Any) -> Hidden:
        # from here on in the precision of the products: half of the memory in bf16
        vectors = vectors.to(working_dtype(vectors.device, next(self.network.parameters()).dtype))
        features: Tensor = self.network(inputs_embeds=vectors, **more).last_hidden_state
        return features if self.transform is None else self.transform(features)

    def _read_blocks(self, vectors: Float[Tensor, "N b D"], joined: Joined) -> Float[Tensor, "N b D"]:
        """Groups of blocks side by side. Where it predicts the next token, the first position of an open block is read

        from the last one of the clean block before it, or from what stands in front.
        """
        pattern, memory = joined.pattern, joined.memory
        places = pattern.places(vectors.device).flatten()[None]
        flat = joined.rows(vectors).flatten(1, 2)
        new_front = self.front is not None and (memory is None or not memory.layers)
        if self.front is not None:
            places = places + 1
        if new_front:
            flat, places = self._with_front(flat), torch.nn.functional.pad(places, (1, 0))
        features = self._read(flat, position_ids=places, joined=joined)
        front, features = (features[:, 0], features[:, 1:]) if new_front else (None, features)
        groups = features.unflatten(1, (pattern.groups, -1))
        if self.front is None and not self.repeat:
            return groups.flatten(0, 1)
        count = len(pattern.open)
        ends = groups[:, count:, -1]  # of the clean blocks
        before = front if memory is None or memory.last is None else memory.last
        if before is None:  # the very first position is read from itself
            before = groups[:, 0, 0]
        if memory is not None and (len(pattern.clean) or memory.last is None):
            kept_last = ends[:, -1] if len(pattern.clean) else front
            memory.last = memory.last if kept_last is None else kept_last
        firsts = torch.cat([before[:, None], ends[:, : count - 1]], 1)[:, :count]
        opened = torch.cat([firsts[:, :, None], groups[:, :count, :-1]], 2)
        return torch.cat([opened, groups[:, count:]], 1).flatten(0, 1)

    def new_cache(self) -> "TransformersCache | None":
        return TransformersCache() if self.causal else None

    def sharding_units(self) -> Sequence[nn.Module]:
        """The blocks: the longest list of modules that it has."""
        lists = [list(part) for part in self.network.modules() if isinstance(part, nn.ModuleList)]
        return max(lists, key=len, default=[])

    def rounded(self, dtype: torch.dtype) -> "TransformersTrunk":
        rounded = copy.deepcopy(self)
        rounded.network.to(dtype)
        if rounded.transform is not None:
            rounded.transform.to(dtype)
        return rounded


class TransformersCache:
    """The keys and values that the library keeps."""

    def __init__(self) -> None:
        from transformers import DynamicCache

        self.kept = DynamicCache()

    @property
    def length(self) -> int:
        return int(self.kept.get_seq_length())

    def fixed(self, size: int) -> None:
        return None


_LAYERS = 10_000

# kinds whose attention is told of blocks, and whose positions count from 0; tests/nets/test_blocks.py has each of them
_IN_BLOCKS = ("llama", "qwen2", "mistral", "gpt2", "gpt_neox", "opt", "phi", "bert", "electra")

# where masked language models of a kind have what stands between their blocks and their last layer
TRANSFORMS = {"bert": "cls.predictions.transform", "modernbert": "head"}


def _check_layers(values: dict[str, Any]) -> None:
    """The library makes lists as long as there are layers before it makes any of them."""
    most = max((n for name, n in values.items() if "layer" in name and isinstance(n, int)), default=0)
    if most > _LAYERS:
        raise ValueError(f"no network has {most:.3g} layers")


def _network(settings: TransformersSettings, causal: bool) -> tuple[nn.Module, nn.Module | None, bool]:
    """Without token vectors and last layer; the transform if it is asked for; and whether its attention is ours."""
    try:
        from transformers import AutoConfig, AutoModel, AutoModelForMaskedLM

        from candi.nets.transformers_attention import NAME, attention_of
    except ImportError:
        raise UserError(f"Networks of the transformers library need it: {extra('scorers')}.") from None
    try:
        values = json.loads(settings.architecture)
        kind = values.pop("model_type")
        _check_layers(values)
        config = AutoConfig.for_model(kind, **values)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(f"The architecture is no config.json of the transformers library ({error}).") from None
    if config.hidden_size != settings.width:
        raise UserError(
            f"The architecture is {config.hidden_size} wide, the trunk {settings.width}; make them the same."
        )
    config.is_causal = causal  # the library then makes no causal mask
    config.use_cache = False
    kernel = attention_of(config.to_dict().get("layer_types"))
    transform = None
    if settings.transform:
        if kind not in TRANSFORMS:
            raise UserError(f"Of {kind} no transform is known, only of {', '.join(TRANSFORMS)}; leave it out.")
        whole: Any = AutoModelForMaskedLM.from_config(config, attn_implementation=kernel)
        network, transform = whole.base_model, whole.get_submodule(TRANSFORMS[kind])
    else:
        network = AutoModel.from_config(config, attn_implementation=kernel)
    for part in network.modules():
        if hasattr(part, "is_causal"):
            setattr(part, "is_causal", causal)  # noqa: B010 - what its attention tells the kernel
    network.set_input_embeddings(None)  # token vectors are of the method here
    return network, transform, kernel == NAME
