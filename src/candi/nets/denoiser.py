"""Method, trunk and head joined into one network."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor, nn

from candi.base.errors import UserError
from candi.base.types import Context, Hidden, Mask, SequenceLabels, Times, Tokens, Values
from candi.diffusion.methods.base import Method
from candi.diffusion.prediction import Prediction
from candi.diffusion.state import State
from candi.nets.blocks import Blocks, Joined
from candi.nets.config import ModelConfig
from candi.nets.head import Head
from candi.nets.labels import LabelEmbedding
from candi.nets.trunk import Trunk

# a state as tensors (t, known, tokens, values, noise_t), a label, and of blocks the sequences that they are of with
# their pattern, to features: what can be compiled
Features: TypeAlias = Callable[..., Hidden]


class Denoiser(nn.Module):
    """state -> p(x0 | state): embed, trunk, head. `config` is what it was built from, and what lets it be saved.

    With `block` sequences are written block by block: states are of blocks, and `context` is what they are blocks of.
    """

    method: Method
    trunk: Trunk
    head: Head
    head_class: ClassVar[type[Head]] = Head

    def __init__(
        self, method: Method, trunk: Trunk, classes: Sequence[int] = (), config: ModelConfig | None = None,
        block: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        name = type(trunk).__name__
        if trunk.width != method.embedding.width:
            raise UserError(
                f"{name} is {trunk.width} wide, but the token vectors have {method.embedding.width} numbers."
            )
        if trunk.causal != method.causal:
            kind = "causal" if method.causal else "bidirectional"
            raise UserError(f"{type(method).__name__} needs a {kind} trunk, and {name} is not; its `causal` says so.")
        if classes and not trunk.conditioning:
            raise UserError(
                f"{name} takes no condition beside the time; leave out the label, or set its `conditioning`."
            )
        if block is not None and method.causal:
            raise UserError(f"{type(method).__name__} writes token by token already; leave out --block.")
        if block is not None and not trunk.reads_blocks:
            raise UserError(
                f"{name} cannot read blocks: its attention would have to be told of them (`reads_blocks`, see "
                "docs/blocks.md); leave out --block, or take another network."
            )
        self.method, self.trunk, self.config = method, trunk, config
        self.blocks = None if block is None else Blocks(block)
        self.head = self.head_class(method.embedding.width, method.embedding.vocab_size)
        self.labels = LabelEmbedding(classes, trunk.conditioning) if classes else None

    @classmethod
    def build(cls, config: ModelConfig) -> "Denoiser":
        """With random weights."""
        method = config.build_method()
        return cls(method, config.model.build(causal=method.causal), config.classes, config, config.block)

    @property
    def vocab_size(self) -> int:
        return self.method.embedding.vocab_size

    def split(self, values: Tensor) -> Tensor:
        """Sequences [B, L] as what states are of: their blocks, or without blocks themselves."""
        return values if self.blocks is None else self.blocks.split(values)

    def parts(self, length: int) -> int:
        """How many of them a sequence has."""
        return 1 if self.blocks is None else self.blocks.count(length)

    def forward(self, state: State, label: SequenceLabels | None = None, context: Context | None = None) -> Prediction:
        return self.predict(self.features, state, label, context)

    def predict(
        self, features: Features, state: State, label: SequenceLabels | None = None, context: Context | None = None,
        compiled: bool = False,
    ) -> Prediction:  # fmt: skip
        """The prediction from features that this denoiser, or a compiled form of it, computes."""
        inputs = (state.t, state.known, state.tokens, state.values, state.noise_t, label)
        if context is None or self.parts(context.shape[1]) == 1:  # one block sees nothing but itself
            found = features(*inputs)
        else:
            assert self.blocks is not None
            joined = self.blocks.side_by_side(context.shape[1], context.device, compiled)
            found = features(*inputs, context, joined)
        return Prediction(found, self.head, self.vocab_size, ~state.known)

    def features(
        self, t: Times, known: Mask, tokens: Tokens, values: Values | None, noise_t: Times | None,
        label: SequenceLabels | None, context: Context | None = None, joined: Joined | None = None,
    ) -> Hidden:  # fmt: skip
        """The trunk's features of a state. Of tensors alone, so that it can be compiled."""
        state = State(t, known, tokens, values, noise_t=noise_t)
        if context is None or joined is None:
            return self._features(self.trunk, state, label)
        return self._side_by_side(state, label, context, joined)

    def _side_by_side(self, state: State, label: SequenceLabels | None, context: Context, joined: Joined) -> Hidden:
        """Features of all blocks at once: noisy and clean copies in one pass of the trunk."""
        count = self.parts(context.shape[1])

        def both(noisy: Tensor, clean: Tensor) -> Tensor:
            """Copies [B K, ...] as groups [B 2K, ...], those of a sequence together."""
            pair = (noisy.unflatten(0, (-1, count)), clean.unflatten(0, (-1, count)))
            return torch.cat(pair, 1).flatten(0, 1)

        vectors = self.method.embed(state)
        clean = self.method.embedding.lookup(self.split(context)).to(vectors)
        condition = self.label_embedding(context, label)
        features: Tensor = self.trunk(
            both(vectors, clean), both(self.time_input(state), self.time_of_clean(state)),
            None if condition is None else condition.repeat_interleave(2 * count, 0), joined,
        )  # fmt: skip
        return joined.rows(features)[:, :count].flatten(0, 1)

    def time_of_clean(self, state: State) -> Times:
        """What the trunk is told as the time of clean blocks: t = 0."""
        return self.time_input(replace(state, t=torch.zeros_like(state.t), noise_t=None))

    def features_by(self, trunk: Trunk) -> Features:
        """The same by another copy of the trunk, of whole sequences."""

        def features(
            t: Times, known: Mask, tokens: Tokens, values: Values | None, noise_t: Times | None,
            label: SequenceLabels | None,
        ) -> Hidden:  # fmt: skip
            return self._features(trunk, State(t, known, tokens, values, noise_t=noise_t), label)

        return features

    def _features(self, trunk: Trunk, state: State, label: SequenceLabels | None) -> Hidden:
        condition = self.label_embedding(state.tokens, label)
        features: Tensor = trunk(self.method.embed(state), self.time_input(state), condition)
        return features

    def label_embedding(self, tokens: Context, label: SequenceLabels | None) -> Float[Tensor, "S C"] | None:
        """The condition that labels give the trunk, if the network was trained with some."""
        if self.labels is None:
            return None
        embedded: Tensor = self.labels(self.labels.none(tokens[:, 0]) if label is None else label)
        return embedded

    def time_input(self, state: State) -> Times:
        """The time as the trunk gets it, in the precision of the weights; 0 for methods without one."""
        time = self.method.time_input(state) if self.method.time_conditioned else torch.zeros_like(state.t)
        return time.to(self.head.weight.dtype)
