"""docs/likelihood.md: bits per character of every method at one size, from what lab/bits.sh kept."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from candi.base.files import write_text
from candi.base.markdown import table

_NAMES = {
    "ar": "autoregressive", "mdlm": "masked (MDLM)", "candi-paper": "CANDI, ranks .05 to .25 (the paper's)",
    "candi-calibrated": "CANDI, ranks .1 to .4", "candi-bound": "CANDI, ranks .1 to .4, trained on the bound",
    "text8": "CANDI, the model that ships (`candi models text8`), windows of 256 characters",
    "udlm": "uniform (UDLM)", "duo": "DUO", "onehot": "one-hot, ranks .05 to .45", "embedding": "embedding",
}  # fmt: skip
_PRIORS = ("normal", "frequencies")
# as table 1 of Jo and Hwang 2025 (arXiv 2502.11564) has collected them from the papers
_PUBLISHED = (
    ("autoregressive transformer", "1.23", "Vaswani et al. 2017"),
    ("Riemannian (RDLM)", "at most 1.32", "Jo and Hwang 2025"),
    ("masked (MD4)", "at most 1.37", "Shi et al. 2024"),
    ("masked (SEDD absorb)", "at most 1.39", "Lou et al. 2024"),
    ("masked (MDLM)", "at most 1.40", "Sahoo et al. 2024"),
    ("Bayesian flow (BFN)", "at most 1.41", "Graves et al. 2023"),
    ("masked (D3PM absorb)", "at most 1.45", "Austin et al. 2021"),
    ("embedding (Plaid)", "at most 1.48", "Gulrajani and Hashimoto 2023"),
    ("uniform (D3PM uniform)", "at most 1.61", "Austin et al. 2021"),
)


@dataclass(frozen=True)
class Bits:
    """A run and its bits per character under each prior that it was evaluated from."""

    name: str
    settings: dict[str, Any]
    found: dict[str, dict[str, Any]]

    @classmethod
    def read(cls, folder: Path) -> "Bits":
        found = {prior: _json(folder / f"{prior}.json") for prior in _PRIORS if (folder / f"{prior}.json").exists()}
        run = folder / "run.json"
        return cls(folder.name, _json(run)["settings"] if run.exists() else {}, found)

    def row(self, prior: str) -> list[str]:
        one = self.found[prior]
        margin, scale = (one["high"] - one["low"]) / 2, one["tokens"] / one["characters"]
        parts = one["parts"] if len(one["parts"]) > 1 else {}
        most = "" if one["exact"] else "at most "
        shares = [f"{parts[part] * scale:.3f}" if part in parts else "" for part in ("tokens", "gaussian", "prior")]
        last = parts.get("last draw", parts.get("ends"))
        which = prior if set(self.found) == set(_PRIORS) else ""
        return [
            _NAMES[self.name], which, f"{most}{one['bits_per_character']:.3f} ± {margin * scale:.3f}", *shares,
            f"{last * scale:.3f}" if last else "",
        ]  # fmt: skip


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def write_bits(folder: Path, page: Path) -> None:
    """The page, where something was kept."""
    found = [Bits.read(folder / name) for name in _NAMES if (folder / name).is_dir()]
    runs, shipped = [one for one in found if one.settings], [one for one in found if not one.settings]
    if not runs:
        return
    settings, first = runs[0].settings, next(iter(runs[0].found.values()))
    tokens = settings["steps"] * settings["batch_size"] * settings["length"]
    about = (
        f"{settings['model']['blocks']} blocks, {settings['model']['width']} wide, {settings['steps']:,} steps of "
        f"{settings['batch_size']} sequences of {settings['length']} characters ({tokens / 1e6:.1f} million), one run "
        f"each; {first['sequences']} held-out sequences, 95% intervals over them and the times drawn."
    )
    head = ["method", "prior", "bits per character", "tokens", "noise", "prior's cost", "ends"]
    rows = [run.row(prior) for run in runs for prior in run.found]
    larger = [_SHIPPED, table(head, [one.row(prior) for one in shipped for prior in one.found])] if shipped else []
    published = table(["method", "bits per character", "of"], [list(row) for row in _PUBLISHED])
    write_text(
        page, "\n\n".join([_HEAD, about, table(head, rows), _READING, *larger, _PUBLISHED_HEAD, published]) + "\n"
    )


_HEAD = """# Bits per character

Every method on text8, by `candi evaluate`: exactly for autoregression, a bound for all others, CANDI too
([method.md](method.md#likelihood)). This page is written by `candi-lab results` from `lab/results/bits`, which one
script has made on a laptop's cores:

    lab/bits.sh TEXT HELD_OUT OUT"""

_READING = """A bound is the sum of what the tokens cost, what the noise tells of them, what the prior does not know,
and of some methods what stands at their ends (of one-hot and embedding diffusion the last draw). So small networks, so
early in training, with one learning rate for all and tuned for none, say how the methods stand to each other here, and
nothing of how far each can go."""

_SHIPPED = """The model that ships was trained for longer, on a GPU. The same text, fewer sequences:"""

_PUBLISHED_HEAD = """## Published

Bits per character of text8's test part, as table 1 of Jo and Hwang 2025 (arXiv 2502.11564) has collected them from the
papers named. Those networks are far larger than the ones of this page, and trained for far longer."""
