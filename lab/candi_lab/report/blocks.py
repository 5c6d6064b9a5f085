"""The measured part of docs/blocks.md: bits per character by the size of the block, and windows of long samples."""

import json
from pathlib import Path
from typing import Any

from candi.base.files import write_text
from candi.base.markdown import table
from candi.views.plots import save
from candi_lab.report.readme import BEGIN, END
from candi_lab.studies import windows


def write_blocks(folder: Path, page: Path) -> None:
    """Put into the page's place for it, where something was kept."""
    runs = [_Run.read(path.parent) for path in sorted(folder.glob("*/bits.json"))]
    if not runs:
        return
    parts = [_about(runs[0]), table(["written", "method", "bits per character"], [one.row for one in sorted(runs)])]
    kept = folder / "windows.jsonl"
    if kept.exists():
        rows = [json.loads(line) for line in kept.read_text(encoding="utf-8").splitlines()]
        save(windows.draw(rows), page.parent / "figures" / "blocks-windows")
        parts.append(_FIGURE.format(n=rows[0]["samples"], length=rows[0]["length"], all=4 * rows[0]["length"]))
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    write_text(page, before + "\n\n".join([BEGIN, *(part.strip() for part in parts), END]) + rest.partition(END)[2])


class _Run:
    def __init__(self, name: str, settings: dict[str, Any], bits: dict[str, Any]) -> None:
        self.name, self.settings, self.bits = name, settings, bits

    @classmethod
    def read(cls, folder: Path) -> "_Run":
        settings, bits = (json.loads((folder / f"{name}.json").read_text("utf-8")) for name in ("run", "bits"))
        return cls(folder.name, settings["settings"], bits)

    def __lt__(self, other: "_Run") -> bool:
        return self._order < other._order

    @property
    def _order(self) -> tuple[bool, str, int]:
        method = self.settings["method"]
        return method != "ar", "" if method == "ar" else method, self.settings.get("block") or self.settings["length"]

    @property
    def row(self) -> list[str]:
        block = self.settings.get("block")
        how = f"blocks of {block}" if block else f"the window of {self.settings['length']} at once"
        if self.settings["method"] == "ar":
            how = "token by token"
        found = self.bits
        scale = found["tokens"] / found["characters"]
        margin = (found["high"] - found["low"]) / 2 * scale
        most = "" if found["exact"] else "at most "
        names = {"ar": "autoregressive", "mdlm": "masked (MDLM)", "candi": "CANDI, ranks .1 to .4"}
        return [how, names[self.settings["method"]], f"{most}{found['bits_per_character']:.3f} ± {margin:.3f}"]


def _about(run: _Run) -> str:
    settings, bits = run.settings, run.bits
    tokens = settings["steps"] * settings["batch_size"] * settings["length"]
    return (
        f"text8, {settings['model']['blocks']} blocks, {settings['model']['width']} wide, {settings['steps']:,} steps "
        f"of {settings['batch_size']} sequences of {settings['length']} characters ({tokens / 1e6:.1f} million), one "
        f"run each, by `lab/blocks.sh`; {bits['sequences']} held-out sequences, 95% intervals over them and the times "
        "drawn."
    )


_FIGURE = """![Perplexity and entropy of each window of long samples](figures/blocks-windows.svg)

{n} samples each, four times as long as the {length} characters of training. Left: perplexity of each window by the
autoregressive run of the table, which reads every window by itself; right: the entropy of its characters. Bands: 95%.
Blocks took as many steps as they have characters, the window at once 64 for all of its {all:,} characters.
"""
