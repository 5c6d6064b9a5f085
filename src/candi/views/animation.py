"""A trajectory as a moving picture: SVG that any browser plays, or GIF."""

import html
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from rich.cells import cell_len

from candi.base.errors import UserError
from candi.base.files import write_text
from candi.model.trace import PositionKind
from candi.views.frames import Frame, lines

_PAPER, _SOFT, _INK = "#16181d", "#8b93a1", "#e8e8e8"
_COLOURS = {PositionKind.GIVEN: "#6cb6ff", PositionKind.CLEAN: _INK, PositionKind.REVEALED: "#0b1a0b"}
_REVEALED = "#7bd88f"
_NOISY = ((0.3, "#7d5a8c"), (0.7, "#b07fc9"), (float("inf"), "#eeb3ff"))  # unsure, undecided, nearly sure
_CELL, _LINE, _EDGE = 9, 20, 14  # of the picture, in pixels
_SECONDS, _HOLD = 0.25, 2.5  # of a frame, and how long the last one stays


def write_animation(path: Path, frames: Sequence[Frame], columns: int = 80) -> None:
    """By the ending of its name."""
    if path.suffix == ".svg":
        write_text(path, svg(frames, columns))
    elif path.suffix == ".gif":
        _gif(path, frames, columns)
    else:
        raise UserError(f"{path} is neither .svg nor .gif; end the name of --frames in one of them.")


def colour(kind: int, sure: float) -> str:
    if kind != PositionKind.NOISY:
        return _COLOURS[PositionKind(kind)]
    return next(shade for limit, shade in _NOISY if sure < limit)


def svg(frames: Sequence[Frame], columns: int) -> str:
    """Each frame is a group that is visible in its turn."""
    rows = [list(lines(frame, columns)) for frame in frames]
    width, height = _size(rows, columns)
    total = (len(frames) - 1) * _SECONDS + _HOLD
    share = 100 * _SECONDS / total
    groups = []
    for number, (frame, text) in enumerate(zip(frames, rows, strict=True)):
        last = number == len(frames) - 1
        timing = f"animation-name:{'stay' if last else 'show'};animation-delay:{number * _SECONDS:g}s"
        groups.append(f'<g class="f" style="{timing}">{_header(frame, width)}{"".join(_rows(text))}</g>')
    style = (
        f"@keyframes show{{0%{{visibility:visible}}{share:.4f}%,100%{{visibility:hidden}}}}"
        f"@keyframes stay{{0%{{visibility:visible}}{100 * _HOLD / total:.4f}%,100%{{visibility:hidden}}}}"
        f".f{{visibility:hidden;animation-duration:{total:g}s;animation-timing-function:step-end;"
        "animation-iteration-count:infinite}"
        "@media (prefers-reduced-motion:reduce){.f{animation:none}.f:last-of-type{visibility:visible}}"
        "text{font:15px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;white-space:pre;direction:ltr;"
        "unicode-bidi:bidi-override}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img" '
        f'aria-label="Text coming out of the noise in {frames[-1].steps} steps"><style>{style}</style>'
        f'<rect width="{width}" height="{height}" rx="8" fill="{_PAPER}"/>{"".join(groups)}</svg>\n'
    )


def _size(rows: Sequence[Sequence[Sequence[object]]], columns: int) -> tuple[int, int]:
    return 2 * _EDGE + max(360, _CELL * columns), 2 * _EDGE + _LINE * (2 + max(len(text) for text in rows))


def _header(frame: Frame, width: int) -> str:
    label = f"step {frame.step}/{frame.steps}"
    start = _EDGE + 140
    room = width - start - _EDGE
    return (
        f'<text x="{_EDGE}" y="{_EDGE + 13}" fill="{_SOFT}">{label}</text>'
        f'<rect x="{start}" y="{_EDGE + 5}" width="{room}" height="5" rx="2" fill="#333a45"/>'
        f'<rect x="{start}" y="{_EDGE + 5}" width="{room * frame.known:.1f}" height="5" rx="2" fill="{_REVEALED}"/>'
    )


def _rows(text: Sequence[Sequence[tuple[str, int, float]]]) -> list[str]:
    parts = []
    for number, line in enumerate(text):
        y, column = _EDGE + _LINE * (number + 2), 0
        for (fill, kind), run in groupby(line, lambda cell: (colour(cell[1], cell[2]), cell[1])):
            shown = "".join(cell[0] for cell in run)
            cells = max(1, cell_len(shown))
            x, wide = _EDGE + _CELL * column, _CELL * cells
            if kind == PositionKind.REVEALED:
                parts.append(f'<rect x="{x}" y="{y - 15}" width="{wide}" height="{_LINE}" fill="{_REVEALED}"/>')
            if shown.strip():
                parts.append(f'<text x="{x}" y="{y}" textLength="{wide}" fill="{fill}">{_escaped(shown)}</text>')
            column += cells
    return parts


def _escaped(text: str) -> str:
    """XML has no control characters."""
    return html.escape("".join(c if " " <= c < "\ufffe" or c > "\uffff" else "\ufffd" for c in text), quote=False)


def _gif(path: Path, frames: Sequence[Frame], columns: int) -> None:
    from matplotlib.font_manager import findfont  # DejaVu comes with it
    from PIL import Image, ImageDraw, ImageFont

    font = ImageFont.truetype(findfont("DejaVu Sans Mono"), 15)
    rows = [list(lines(frame, columns)) for frame in frames]
    width, height = _size(rows, columns)
    images = []
    for frame, text in zip(frames, rows, strict=True):
        image = Image.new("RGB", (width, height), _PAPER)
        draw = ImageDraw.Draw(image)
        draw.text((_EDGE, _EDGE), f"step {frame.step}/{frame.steps}", _SOFT, font)
        start = _EDGE + 140
        draw.rectangle((start, _EDGE + 6, width - _EDGE, _EDGE + 11), "#333a45")
        end = start + (width - _EDGE - start) * frame.known
        draw.rectangle((start, _EDGE + 6, end, _EDGE + 11), _REVEALED)
        for number, line in enumerate(text):
            y = _EDGE + _LINE * (number + 2) - 15
            x = _EDGE
            for character, kind, sure in line:
                wide = _CELL * max(1, cell_len(character))
                if kind == PositionKind.REVEALED:
                    draw.rectangle((x, y, x + wide - 1, y + _LINE - 1), _REVEALED)
                draw.text((x, y), character, colour(kind, sure), font)
                x += wide
        images.append(image.quantize(32))
    pauses = [round(1000 * _SECONDS)] * (len(images) - 1) + [round(1000 * _HOLD)]
    images[0].save(path, save_all=True, append_images=images[1:], duration=pauses, loop=0, optimize=True)
