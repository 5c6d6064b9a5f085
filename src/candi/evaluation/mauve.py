"""MAUVE: how much a cloud of samples and a cloud of real texts overlap, in the features of a scorer.

1 if nobody can tell them apart. The measure is the package mauve-text's; here is only what it is given.
"""

import importlib.util
from collections.abc import Sequence
from functools import cached_property
from statistics import median
from typing import Any

from candi.base.errors import UserError, extra
from candi.data.corpus import Corpus
from candi.evaluation.scorers import CausalScorer, Scorer


class Mauve:
    """Against pieces of a reference text, evenly spread over it, as many as there are samples and about as long."""

    def __init__(self, scorer: Scorer, reference: str, seed: int = 0) -> None:
        if importlib.util.find_spec("mauve") is None:
            raise UserError(f"--mauve needs the package mauve-text; get it with {extra('mauve')}.")
        if not isinstance(scorer, CausalScorer):
            raise UserError("--mauve needs a scorer of transformers or a GGUF file, whose features it compares.")
        self.scorer, self.reference, self.seed = scorer, Corpus(reference), seed

    @cached_property
    def _text(self) -> str:
        return "".join(piece.text for piece in self.reference.pieces())

    def pieces(self, count: int, length: int) -> list[str]:
        if len(self._text) < count * length:
            raise UserError(
                f"The reference of --mauve has {len(self._text):,} characters, too few for {count} pieces of {length}; "
                "give a longer text or fewer samples."
            )
        apart = len(self._text) / count
        return [self._text[int(i * apart) :][:length] for i in range(count)]

    def of(self, texts: Sequence[str]) -> dict[str, Any]:
        """The value, and what it was measured with. None where too few texts have anything to tell."""
        import mauve

        real = [text for text in texts if text.strip()]
        value = None
        if len(real) >= 2:
            pieces = self.pieces(len(real), max(1, int(median(len(text) for text in real))))
            found = mauve.compute_mauve(
                p_features=self.scorer.features(pieces), q_features=self.scorer.features(real), seed=self.seed
            )
            value = float(found.mauve)
        return {"mauve": value, "identity": {**self.scorer.identity, "reference": self.reference.fingerprint}}
