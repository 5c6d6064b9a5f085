"""Draw docs/watch.svg: five moments of one sample, as `candi sample RUN --watch` shows them.

python docs/picture.py RUN [seed]
"""

import io
import sys
from pathlib import Path

from rich.console import Console

import candi
from candi.cli.watch import frames, styled

STEPS, SHOWN = 16, (0, 5, 10, 13, 16)


def main(run: str, seed: int = 0) -> None:
    model = candi.load(run)
    console = Console(record=True, width=100, file=io.StringIO(), force_terminal=True)
    options = {"steps": STEPS, "temperature": 0.7, "seed": seed, "prompt": "The "}
    for frame in frames(model, options, 0):
        if frame.step in SHOWN:
            console.print(styled(frame))
    target = Path(__file__).with_name("watch.svg")
    console.save_svg(str(target), title=f"candi sample {run} --steps {STEPS} --temperature 0.7 --prompt 'The ' --watch")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
