"""docs/performance.md, from the results under lab/benchmarks."""

import json
from pathlib import Path
from typing import Any

from candi.base.files import write_text
from candi.base.markdown import table
from candi_lab.bench.plots import COLD

Result = dict[str, Any]  # what candi-lab bench wrote

_IDEAS = {
    "head at every position": "The head runs at open positions only",
    "dense cross-entropy": "Linear layer and cross-entropy in one, logits made again in the backward pass",
    "vocabulary of odd size": "Vocabulary padded to a multiple of 64 with tokens of probability 0",
    "no kernels of our own": "Sums over the vocabulary and their gradient in Triton",
    "counting open positions": "A fixed capacity for open positions: nothing waits for the device to count",
    "trunk not compiled": "Embedding and trunk compiled",
    "optimizer parameter by parameter": "AdamW in one pass over the weights",
    "repeatable to the bit": "Not asking for the same bits in every run (`--deterministic false`)",
    "torch's linear_cross_entropy": "Our linear + cross-entropy instead of torch's own",
}


def write_performance(benchmarks: Path, page: Path) -> None:
    """The page from all JSON files of a folder."""
    found = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(benchmarks.glob("*.json"))}
    parts = [_HEAD]
    for name, result in found.items():
        if name.endswith("-prepare"):
            parts.append(_preparing(name, result))
            continue
        if name.endswith("-blocks"):
            parts += [_title(name, result), _written(result)]
            continue
        guided = name.endswith("-guide")
        parts += [_title(name, result), *([_guided(result)] if guided else [_rows(result), _findings(result)])]
        parts += [_COLD] if any(row.get("kind") == COLD for row in result["rows"]) else []
        parts += [part for part in (_profile(result), _ideas(result), _growth(result)) if part]
        if (benchmarks / f"{name}.svg").exists():
            parts.append(f"![Tokens a second against denoising steps](../lab/benchmarks/{name}.svg)")
    write_text(page, "\n\n".join(parts) + "\n")


def _title(name: str, result: Result) -> str:
    machine, settings = result["machine"], result["settings"]
    what = {"train": "Training", "sample": "Sampling", "guide": "Guidance", "blocks": "Writing in blocks"}[
        name.rpartition("-")[2]
    ]
    threads = f", {machine['threads']} threads" if machine["kind"] == "cpu" else ""
    return (
        f"## {what} on {machine['device']}{threads}\n\n"
        f"{settings['blocks']} blocks, {settings['width']} wide, vocabulary {settings['vocab_size']:,}, "
        f"length {settings['length']:,}, dropout {settings['dropout']}, {settings['dtype']}; torch {machine['torch']}, "
        f"Python {machine['python']}. `lab/benchmarks/{name}.json`."
    )


def _preparing(name: str, result: Result) -> str:
    """Megabytes a second by kind and cores, the peak of memory by size, and what corpora of the web would take."""
    machine, settings = result["machine"], result["settings"]
    shared = " Others used the machine at the same time." if settings["shared"] else ""
    rows = [
        [r["what"], f"{r['megabytes']:,}", str(r["cores"]), f"{r['mb_per_second']:.1f}", f"{r['peak_gb']:.2f}"]
        for r in result["rows"]
    ]
    return (
        f"## Preparing on {machine['device']}\n\n"
        "`candi prepare` as a command of its own, its start included: documents of shuffled lines of Python's manual, "
        f"a byte-level BPE of {settings['vocab_size']:,} tokens.{shared} What a corpus of the web would take is "
        f"extrapolated from JSON lines. `lab/benchmarks/{name}.json`.\n\n"
        + table(["file", "MB", "cores", "MB/s", "peak GB"], rows)
        + f"\n\n{_findings(result)}"
    )


def _written(result: Result) -> str:
    """Tokens a second, and how many times those of autoregression at the same batch."""
    rows, sizes = result["rows"], sorted({row["batch"] for row in result["rows"]})
    pace = {(row["what"], row["batch"]): row["tokens_per_second"] for row in rows}
    body = [
        [what, *(part for size in sizes for part in _beside(pace.get((what, size)), pace["autoregressive", size]))]
        for what in dict.fromkeys(row["what"] for row in rows)
    ]
    head = ["", *(part for size in sizes for part in (f"tokens/s, batch {size}", "times autoregressive"))]
    return table(head, body)


def _beside(found: int | None, left_to_right: int) -> tuple[str, str]:
    return ("", "") if found is None else (f"{found:,}", f"{found / left_to_right:.2f}")


def _rows(result: Result) -> str:
    rows = [row for row in result["rows"] if not row["what"].startswith(("growth", "with "))]
    return table(
        ["", "batch", "ms", "tokens/s", "peak GB"],
        [[row["what"], str(row["batch"]), *_numbers(row)] for row in rows],
    )


def _numbers(row: dict[str, Any]) -> list[str]:
    return [f"{row['milliseconds']:,.1f}", f"{row['tokens_per_second']:,}", f"{row['memory_gb']:.2f}"]


def _guided(result: Result) -> str:
    """Milliseconds a molecule, and how many times those of the same method without a classifier."""
    rows, alone = [], 1.0
    for row in result["rows"]:
        if "," not in row["kind"]:
            alone = row["milliseconds"]
        each = row["milliseconds"] / row["batch"]
        spread = f"{100 * row['spread']:.0f}%"
        rows.append([row["what"], str(row["batch"]), f"{each:.3f}", spread, f"{row['milliseconds'] / alone:.2f}"])
    return table(["", "molecules at once", "ms a molecule", "spread", "times the method alone"], rows)


def _findings(result: Result) -> str:
    kept = {k: v for k, v in result["findings"].items() if not isinstance(v, dict) and "times slower" not in k}
    if any("sampling step" in name for name in kept):
        kept["candi approximate / mdlm at 16 steps, counted in FLOPs"] = _counted(result["settings"])
    return "\n".join(f"- {name}: {_value(value)}" for name, value in kept.items())


def _counted(settings: dict[str, Any], steps: int = 16) -> float:
    """The least that sampling by CANDI can cost, over masked diffusion that draws only what it reveals."""
    width, blocks, length = settings["width"], settings["blocks"], settings["length"]
    trunk = (24 * width**2 + 4 * length * width) * blocks  # products and attention of a position
    head = 2 * width * settings["vocab_size"]
    return (steps * trunk + (steps + 1) / 2 * head) / (steps * trunk + head)


def _value(value: Any) -> str:
    return (
        f"{value:,.3g}" if isinstance(value, float) and value < 100 else f"{value:,}" if value != str(value) else value
    )


def _profile(result: Result) -> str:
    profiles = {k.removeprefix("profile, "): v for k, v in result["findings"].items() if k.startswith("profile")}
    if not profiles:
        return ""
    kinds = list(next(iter(profiles.values())))
    body = [[kind, *(f"{100 * shares[kind]:.1f}%" for shares in profiles.values())] for kind in kinds]
    return "What the time is made of:\n\n" + table(["", *profiles], body)


def _ideas(result: Result) -> str:
    rows = []
    for row in result["rows"]:
        if row["what"].startswith("with "):
            idea = row["what"].removeprefix("with ").rpartition(", batch")[0]
            times = result["findings"][f"{idea}: times slower, batch {row['batch']}"]
            rows.append([_IDEAS[idea], f"{times:.2f}", f"{row['memory_gb']:.2f}"])
    if not rows:
        return ""
    whole = next(row for row in result["rows"] if row["what"].startswith("candi, batch"))
    said = f"What each idea bought, by leaving one out at a time (batch {whole['batch']}; with all of them "
    said += f"{whole['memory_gb']:.2f} GB):"
    return said + "\n\n" + table(["idea", "times slower without it", "peak GB without it"], rows)


def _growth(result: Result) -> str:
    rows = [row for row in result["rows"] if row["what"].startswith("growth")]
    if not rows:
        return ""
    body = [[f"{r['vocab_size']:,}", f"{r['length']:,}", str(r["batch"]), *_numbers(r)] for r in rows]
    return "Growth (not compiled):\n\n" + table(["V", "length", "batch", "ms", "tokens/s", "peak GB"], body)


_COLD = """The time of autoregression in this file is that of one cold call with a cache that grows, which is not the
fastest way. The benchmark now measures several, warm and repeated; until this machine is measured again, nothing
follows from that row, and no line is drawn for it."""

_HEAD = """# Performance

This page is written by `candi-lab results` from the files that `candi-lab bench` wrote under `lab/benchmarks/`.
To measure your own machine:

    candi-lab bench train  --out mine-train.json
    candi-lab bench sample --out mine-sample.json
    candi-lab bench guide  --out mine-guide.json
    candi-lab bench prepare --out mine-prepare.json

One command times, in one run, our path against a plain reference (one-hot noise of size [B, L, V], logits at every
position, dense float64 draws, nothing compiled), CANDI against MDLM, and diffusion against autoregression with a KV
cache (ours, and a transformer of GPT-2's make with a cache that grows and one of fixed size; the fastest counts).
`candi-lab bench guide` times every method that can be guided, with each kind of classifier and without (medians of five
calls; their spread is that between the slowest and the fastest). Ratios between rows of one run mean more than the
rows: one GPU is a few percent faster than the next.

## How it is made fast

- **Only what is asked.** `Prediction` holds features, not logits. The loss and the draws read out open positions only,
  a part of them at a time; nothing of size [B, L, V] exists.
- **The head.** On a GPU the vocabulary is padded to a multiple of 64 with tokens of probability 0, because tensor
  cores read rows of 16 bytes and GPT-2's 50,257 columns would not be. The normaliser of the cross-entropy is summed in
  a Triton kernel while the logits are in registers; the backward pass makes them again. torch's `linear_cross_entropy`
  does the same without a kernel of its own and is measured beside it where the installed torch has it.
- **Draws.** One float64 uniform a position and an inverse CDF in strides: which block of tokens, which part of it,
  which token. Only sums over blocks are held. This is exact down to probabilities of 1e-15, with V times fewer random
  numbers than an exponential race.
- **Projected noise.** The Cholesky factor of W^T W is computed once for the same weights, in a training step and in
  sampling. Its gradient needs no derivative of the factor: see `spaces.py`.
- **No waiting.** Open positions are gathered into a fixed number of rows, which they exceed with probability 1e-14
  (training would then stop, not go wrong): shapes never change, nothing is compiled twice, and the CPU runs ahead of
  the GPU.
- **Memory for time.** `--keep-activations 1` keeps all that the backward pass needs, less computes the rest again.
- **Sampling.** Trunk and head are rounded to bf16 once; embedding and trunk are compiled, their block sizes tuned;
  small batches replay a CUDA graph; the number of open positions is fetched while the network runs.

CANDI's step in sampling draws at every open position, because those that stay noisy move towards their draw. Masked
diffusion needs draws only where it reveals, and our MDLM makes only those: so it is compared both ways. Counting gives
what that must cost at least: of n steps a position is open in (n + 1)/2 on average and revealed in one, so CANDI's work
is (n trunk + (n + 1)/2 head) / (n trunk + head) of masked diffusion that draws only what it reveals (below, beside
what was measured), and the same as that of masked diffusion that draws at every open position."""
