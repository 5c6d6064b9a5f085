"""Draw docs/watch.svg: five moments of one sample, as `candi sample text8 --watch` shows them.

python docs/picture.py [seed]
"""

import io
import re
import sys
from pathlib import Path

from rich.console import Console

import candi
from candi.cli.watch import styled
from candi.report.frames import frames

PROMPT, SHOWN = "the history of ", (0, 5, 10, 13, 16)


def main(seed: int = 5) -> None:
    model = candi.load("text8", "cpu")
    console = Console(record=True, width=100, file=io.StringIO(), force_terminal=True)
    options = model.settled(seed=seed, prompt=PROMPT)
    for frame in frames(model, options, 0):
        if frame.step in SHOWN:
            console.print(styled(frame, console.width))
    title = f"candi sample text8 --prompt '{PROMPT}' --seed {seed} --watch"
    # the reader's own monospace font: nothing is fetched
    drawn = re.sub(r"@font-face \{.*?\}", "", console.export_svg(title=title), flags=re.S)
    Path(__file__).with_name("watch.svg").write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
