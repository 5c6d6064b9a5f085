"""Shape aliases. B sequences, L positions, V tokens, D hidden width, K dimensions of a noise space."""

from typing import TypeAlias

from jaxtyping import Bool, Float, Int
from torch import Tensor

Times: TypeAlias = Float[Tensor, "B"]
Tokens: TypeAlias = Int[Tensor, "B L"]
Labels: TypeAlias = Int[Tensor, "B labels"]  # a class of each label
Mask: TypeAlias = Bool[Tensor, "B L"]
PerToken: TypeAlias = Float[Tensor, "B L"]
Hidden: TypeAlias = Float[Tensor, "B L D"]
Values: TypeAlias = Float[Tensor, "B L K"]
LogProbs: TypeAlias = Float[Tensor, "B L V"]
Table: TypeAlias = Float[Tensor, "V D"]
Rows: TypeAlias = Float[Tensor, "N V"]

# of the sequences that blocks [B, b] are of
Context: TypeAlias = Int[Tensor, "S T"]
SequenceLabels: TypeAlias = Int[Tensor, "S labels"]
