"""A comparison in Markdown, in LaTeX and in sentences."""

import math
from collections.abc import Sequence

from candi.base.markdown import table
from candi.evaluation.compare import Axes, Comparison, Group, Pair


def sentence(pair: Pair, axes: Axes) -> str:
    """Who is ahead, where, by how much and how surely."""
    found = pair.result
    if pair.winner is not None:
        loser = pair.second if pair.winner is pair.first else pair.first
        return f"{pair.winner.label} has a point that is more diverse and better than every point of {loser.label}."
    if found is None:
        both = f"{pair.first.label} and {pair.second.label}"
        return f"{both} share no range of {axes.diversity}: neither can be called better."
    first, second, ahead, sure = pair.first.label, pair.second.label, found.ahead, found.sure
    ratios = found.ratio, found.ratio_low, found.ratio_high
    if found.ratio > 1:  # from the side of the one that leads
        first, second, ahead, sure = second, first, 1 - found.ahead, found.surely_behind
        ratios = 1 / found.ratio, 1 / found.ratio_high, 1 / found.ratio_low
    verdict = f"{first} is ahead of {second}" if ratios[2] < 1 else f"{first} leads {second}, but nothing is settled"
    if axes.measures[1].additive:
        higher, low, high = (-math.log(ratio) * axes.unit for ratio in (ratios[0], ratios[2], ratios[1]))
        where = f"{100 * ahead:.0f}% of the shared range {found.low:.3g} to {found.high:.3g}"
        interval, more = f"95% interval {low:.3f} to {high:.3f}", "lower" if axes.less else "higher"
        return (
            f"{verdict}: at the same {axes.diversity} its {axes.quality} is {more} by {higher:.3f} ({interval}); it "
            f"leads in {where}, surely in {100 * sure:.0f}%."
        )
    if axes.measures[1].higher_is_better:
        ratios = 1 / ratios[0], 1 / ratios[2], 1 / ratios[1]
    interval, surely = f"95% interval {ratios[1]:.3f} to {ratios[2]:.3f}", f", surely in {100 * sure:.0f}%"
    if math.isnan(ratios[1]):
        interval, surely = f"{axes.quality} belongs to all samples together and has no interval", ""
    area = f"area between the curves {abs(found.area):.3f} in its logarithm"
    return (
        f"{verdict}: at the same {axes.diversity} its {axes.quality} is {ratios[0]:.3f} times as large ({interval}; "
        f"{area}); it leads in {100 * ahead:.0f}% of the shared range {found.low:.3g} to {found.high:.3g}{surely}."
    )


def listed(values: Sequence[int]) -> str:
    """8, 16 and 32."""
    *most, last = map(str, values)
    return f"{', '.join(most)} and {last}" if most else last


def trap(group: Group) -> list[str]:
    """What a choice of one temperature for each curve can make of them."""
    if group.rankings is None:
        return ["There are too many curves to list every order of them."]
    return [" before ".join(order) for order in group.rankings]


def caution(axes: Axes) -> str:
    """What the band does not hold."""
    still = [name for name, m in zip((axes.diversity, axes.quality), axes.measures, strict=True) if m.numerator is None]
    if not still:
        return "Shaded: the 95% interval at each diversity, over samples."
    return f"Shaded: the 95% interval at each diversity, over samples; {' and '.join(still)} as measured."


def matched_rows(group: Group) -> tuple[list[str], list[list[str]]]:
    """Head and rows of the table of quality at matched diversity."""
    where, found = group.matched()
    rows = [[label, *(interval(*cell) for cell in cells)] for label, cells in found.items()]
    return ["", *(f"{x:.3g}" for x in where)], rows


def markdown(comparison: Comparison) -> str:
    diversity, quality = comparison.labels
    parts = [f"# {quality.capitalize()} at matched {diversity}"]
    for group in comparison.groups:
        head, rows = matched_rows(group)
        parts += [f"## {group.steps} steps", table(head, rows)]
        parts += [f"- {sentence(pair, comparison.axes)}" for pair in group.pairs]
        if len(trap(group)) > 1:
            listed = "; ".join(trap(group))
            parts.append(f"The single-temperature trap: choosing temperatures gives any of these rankings: {listed}.")
    parts += comparison.notes
    return "\n\n".join(parts) + "\n"


def latex(comparison: Comparison) -> str:
    """A booktabs table: steps, run, quality at matched diversity with 95% intervals."""
    lines = []
    for group in comparison.groups:
        head, rows = matched_rows(group)
        lines += [r"\begin{tabular}{l" + "r" * (len(head) - 1) + "}", r"\toprule"]
        lines += [f"{group.steps} steps & " + " & ".join(head[1:]) + r" \\", r"\midrule"]
        lines += [" & ".join(_escaped(cell) for cell in row) + r" \\" for row in rows]
        lines += [r"\bottomrule", r"\end{tabular}", ""]
    return "\n".join(lines)


def interval(value: float, low: float, high: float) -> str:
    if not math.isfinite(value):
        return "-"
    return f"{value:.4g} ({low:.4g} to {high:.4g})" if math.isfinite(low) else f"{value:.4g}"


_SPECIAL = {letter: "\\" + letter for letter in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}


def _escaped(text: str) -> str:
    return "".join(_SPECIAL.get(letter, letter) for letter in text)
