"""Draw docs/watch.svg: five moments of one sample, as `candi sample RUN --watch` shows them.

python docs/picture.py RUN [seed]
"""

import io
import re
import sys
from pathlib import Path

from rich.console import Console

import candi
from candi.cli.watch import frames, styled

STEPS, SHOWN = 16, (0, 5, 10, 13, 16)


def main(run: str, seed: int = 0) -> None:
    model = candi.load(run)
    console = Console(record=True, width=100, file=io.StringIO(), force_terminal=True)
    options = {"steps": STEPS, "temperature": 0.6, "seed": seed, "prompt": "The "}
    for frame in frames(model, options, 0):
        if frame.step in SHOWN:
            console.print(styled(frame, console.width))
    title = f"candi sample {run} --steps {STEPS} --temperature 0.6 --prompt 'The ' --watch"
    # the reader's own monospace font: nothing is fetched
    drawn = re.sub(r"@font-face \{.*?\}", "", console.export_svg(title=title), flags=re.S)
    Path(__file__).with_name("watch.svg").write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
