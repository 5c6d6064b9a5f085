"""Method, trunk and head joined into one network."""

from collections.abc import Callable, Sequence
from typing import ClassVar, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor, nn

from candi.base.errors import UserError
from candi.base.types import Hidden, Labels, Mask, Times, Tokens, Values
from candi.diffusion.methods.base import Method
from candi.diffusion.prediction import Prediction
from candi.diffusion.state import State
from candi.nets.config import ModelConfig
from candi.nets.head import Head
from candi.nets.labels import LabelEmbedding
from candi.nets.trunk import Trunk

# a state as tensors (t, known, tokens, values, noise_t) and a label to features: what can be compiled
Features: TypeAlias = Callable[[Times, Mask, Tokens, Values | None, Times | None, Labels | None], Hidden]


class Denoiser(nn.Module):
    """state -> p(x0 | state): embed, trunk, head. `config` is what it was built from, and what lets it be saved."""

    method: Method
    trunk: Trunk
    head: Head
    head_class: ClassVar[type[Head]] = Head

    def __init__(
        self, method: Method, trunk: Trunk, classes: Sequence[int] = (), config: ModelConfig | None = None
    ) -> None:
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
        self.method, self.trunk, self.config = method, trunk, config
        self.head = self.head_class(method.embedding.width, method.embedding.vocab_size)
        self.labels = LabelEmbedding(classes, trunk.conditioning) if classes else None

    @classmethod
    def build(cls, config: ModelConfig) -> "Denoiser":
        """With random weights."""
        method = config.build_method()
        return cls(method, config.model.build(causal=method.causal), config.classes, config)

    @property
    def vocab_size(self) -> int:
        return self.method.embedding.vocab_size

    def forward(self, state: State, label: Labels | None = None) -> Prediction:
        return self.predict(self.features, state, label)

    def predict(self, features: Features, state: State, label: Labels | None = None) -> Prediction:
        """The prediction from features that this denoiser, or a compiled form of it, computes."""
        found = features(state.t, state.known, state.tokens, state.values, state.noise_t, label)
        return Prediction(found, self.head, self.vocab_size, ~state.known)

    def features(
        self, t: Times, known: Mask, tokens: Tokens, values: Values | None, noise_t: Times | None, label: Labels | None
    ) -> Hidden:
        """The trunk's features of a state. Of tensors alone, so that it can be compiled."""
        return self._features(self.trunk, State(t, known, tokens, values, noise_t=noise_t), label)

    def features_by(self, trunk: Trunk) -> Features:
        """The same by another copy of the trunk."""

        def features(
            t: Times, known: Mask, tokens: Tokens, values: Values | None, noise_t: Times | None, label: Labels | None
        ) -> Hidden:
            return self._features(trunk, State(t, known, tokens, values, noise_t=noise_t), label)

        return features

    def _features(self, trunk: Trunk, state: State, label: Labels | None) -> Hidden:
        features: Tensor = trunk(self.method.embed(state), self.time_input(state), self.label_embedding(state, label))
        return features

    def label_embedding(self, state: State, label: Labels | None) -> Float[Tensor, "B C"] | None:
        """The condition that labels give the trunk, if the network was trained with some."""
        if self.labels is None:
            return None
        embedded: Tensor = self.labels(self.labels.none(state.tokens[:, 0]) if label is None else label)
        return embedded

    def time_input(self, state: State) -> Times:
        """The time as the trunk gets it, in the precision of the weights; 0 for methods without one."""
        time = self.method.time_input(state) if self.method.time_conditioned else torch.zeros_like(state.t)
        return time.to(self.head.weight.dtype)
