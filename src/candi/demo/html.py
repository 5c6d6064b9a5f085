"""What the page shows, as HTML in which nothing that anybody typed is markup."""

import base64
import html
import io
from importlib.resources import files
from itertools import groupby

from matplotlib.figure import Figure

from candi.model.trace import PositionKind
from candi.views.frames import Frame

CSS = (files("candi.demo") / "page.css").read_text(encoding="utf-8")


def trajectory(frame: Frame) -> str:
    """One state: each position in the colour of what it is."""
    cells = zip(frame.pieces, frame.kinds, frame.confidence, strict=True)
    runs = groupby(
        cells, lambda cell: f"n{min(3, int(4 * cell[2]))}" if cell[1] == PositionKind.NOISY else f"k{cell[1]}"
    )
    spans = [f'<span class="{name}">{escaped("".join(cell[0] for cell in run))}</span>' for name, run in runs]
    header = f"step {frame.step} of {frame.steps}, {frame.known:.0%} clean"
    return f'<p class="soft">{header}</p><div class="trajectory">{"".join(spans)}</div>'


def alert(text: str) -> str:
    return f'<p class="alert" role="alert">{escaped(text)}</p>'


def escaped(text: str) -> str:
    """Also safe inside a template of the page."""
    return html.escape(text).replace("$", "&#36;").replace("{", "&#123;").replace("\n", "↵")


def picture(figure: Figure, about: str) -> str:
    """A figure as an image of its own."""
    data = io.BytesIO()
    figure.savefig(data, format="svg", metadata={"Date": None})
    return f'<div class="picture"><img alt="{escaped(about)}" src="{_uri(data.getvalue())}"></div>'


def _uri(svg: bytes) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(svg).decode()
