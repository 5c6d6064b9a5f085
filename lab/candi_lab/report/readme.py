"""The README's table: how much better or worse CANDI is than each other method."""

from collections.abc import Sequence
from pathlib import Path

from candi.base.errors import UserError
from candi.base.files import write_text
from candi.base.markdown import table
from candi.evaluation.measures import Measure
from candi_lab.report.page import CALIBRATED, Measured
from candi_lab.verdicts.advice import Decided, decided, gain
from candi_lab.verdicts.verdict import MISSING, Finding

BEGIN, END = "<!-- written by make results -->", "<!-- end of what make results writes -->"
_METHODS = {
    "mdlm": "masked",
    "udlm": "uniform",
    "duo": "DUO",
    "ar": "autoregressive",
    "onehot": "one-hot",
    "embedding": "embedding",
}
_LEGEND = (
    f"{CALIBRATED} against each method at the same diversity: percent that its measure is better (+) or worse (-), of "
    "molecules the difference of the property; the least and the greatest over the numbers of steps. ~: at some of "
    "them the 95% interval includes no difference, or the curves cross. Empty: not run. "
    "[All numbers](docs/results.md)."
)


def summary_table(measured: Sequence[Measured]) -> str:
    """A row for each data set."""
    rows = []
    for one in measured:
        measure = one.experiment.axes.measures[1]
        for choice in decided(one.experiment, one.sweeps):
            by_method = {choice.methods[name]: found for name, found in choice.others.items()}
            cells = [_range(by_method.get(method, ()), measure) for method in _METHODS]
            measured_as = one.experiment.quality_in(choice.advice.sweep)
            rows.append([_data(choice), one.experiment.size, measured_as, _steps(choice), *cells])
    used = [0, 1, 2, 3, *(column for column in range(4, 4 + len(_METHODS)) if any(row[column] for row in rows))]
    head = ["data", "scale", "measure", "steps", *_METHODS.values()]
    return table([head[column] for column in used], [[row[column] for column in used] for row in rows])


def _data(choice: Decided) -> str:
    """The data, and which CANDI if it is another one."""
    name = choice.advice.runs[0].name
    return choice.advice.where if name == CALIBRATED else f"{choice.advice.where}: {name}"


def _steps(choice: Decided) -> str:
    steps = [count for count, _ in choice.best]
    return " to ".join(dict.fromkeys(str(count) for count in (steps[0], steps[-1])))


def _range(found: Sequence[Finding], measure: Measure) -> str:
    """The least and the greatest gain over the numbers of steps; a word if the distance is not known."""
    gains = [gain(one, measure) for one in found if one.measured]
    if not gains:
        return ", ".join(dict.fromkeys(one.word for one in found if one.verdict != MISSING))
    values = sorted(one.value for one in gains)
    digits = 3 if measure.additive else 1 if max(map(abs, values)) < 20 else 0
    ends = " to ".join(dict.fromkeys(f"{value:+.{digits}f}" for value in (values[0], values[-1])))
    unit = "" if measure.additive else "%"
    return f"{ends}{unit}{'' if all(one.sure for one in gains) else ' ~'}"


def write_readme(readme: Path, measured: Sequence[Measured]) -> None:
    """Puts the table between two marks; the rest stays as it is."""
    before, begin, rest = readme.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise UserError(f"{readme} has no place for the table; put {BEGIN} and {END} where it belongs.")
    write_text(readme, before + "\n\n".join([BEGIN, summary_table(measured), _LEGEND, END]) + after)
