"""Text while it is written."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from candi.base.errors import UserError
from candi.diffusion.sampler import SampleStep

if TYPE_CHECKING:
    from candi.model.model import Model

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


def streamed(model: "Model", steps: Iterable[SampleStep], options: Mapping[str, Any]) -> Iterator[str]:
    """The text of one sequence in pieces that will not change any more."""
    stop, ends = options.get("stop"), bool(options.get("ends", True))
    given = model.given(options)
    held = max((len(one) - 1 for one in stops(stop)), default=0)  # these may be the beginning of a stop string
    causal, end = model.denoiser.method.causal, model.tokenizer.end
    sent, shown, row = "", 0, []
    for step in steps:
        final = step.state.next_position if causal and step.prediction is not None else step.final
        if final <= shown:
            continue
        shown, row = final, model.denoiser.method.decode(step.state)[0, :final].tolist()
        text = model.text(row, given, stop=stop, ends=ends).rstrip(_CUT)
        ready = text[: max(len(sent), len(text) - held)]
        if ready.startswith(sent) and len(ready) > len(sent):
            yield ready[len(sent) :]
            sent = ready
        if causal and end is not None and end in row and model.rows:
            break
    whole = model.text(row, given, stop=stop, ends=ends)
    if len(whole) > len(sent):
        yield whole[len(sent) :]
