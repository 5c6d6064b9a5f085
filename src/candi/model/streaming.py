"""Text while it is written."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from candi.base.errors import UserError
from candi.base.types import Tokens
from candi.diffusion.sampler import SampleStep
from candi.diffusion.state import State

Stop: TypeAlias = str | Sequence[str] | None  # strings before which a text ends
_CUT = "\N{REPLACEMENT CHARACTER}"  # what stands for a character of which some bytes are missing


def stops(stop: Stop) -> tuple[str, ...]:
    """As a tuple."""
    found = (stop,) if isinstance(stop, str) else tuple(stop or ())
    if not all(found):
        raise UserError("A stop string is empty; give the text before which to stop, or leave it out.")
    return found


def before(text: str, stop: Stop, prompt: str = "") -> str:
    """The text up to the first stop string after its prompt."""
    after = len(prompt) if text.startswith(prompt) else 0
    found = [place for place in (text.find(one, after) for one in stops(stop)) if place >= 0]
    return text[: min(found)] if found else text


def streamed(
    steps: Iterable[SampleStep], decode: Callable[[State], Tokens], text: Callable[[Sequence[int]], str], *,
    held: int = 0, causal: bool = False, end: int | None = None,
) -> Iterator[str]:  # fmt: skip
    """The text of one sequence in pieces that will not change any more.

    `held` last characters may be the beginning of a stop string; where it is `causal` a position is final once it is
    written, and `end` is the token behind which nothing is shown.
    """
    sent, shown, row = "", 0, list[int]()
    for step in steps:
        final = step.state.next_position if causal and step.prediction is not None else step.final
        if final <= shown:
            continue
        shown, row = final, decode(step.state)[0, :final].tolist()
        ready = text(row).rstrip(_CUT)
        ready = ready[: max(len(sent), len(ready) - held)]
        if ready.startswith(sent) and len(ready) > len(sent):
            yield ready[len(sent) :]
            sent = ready
        if causal and end is not None and end in row:
            break
    whole = text(row)
    if len(whole) > len(sent):
        yield whole[len(sent) :]
