"""candi-lab bench"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from candi.base.errors import UserError, unknown
from candi.cli.parsing import parse, parser
from candi_lab.bench.blocks import bench_blocks
from candi_lab.bench.guiding import bench_guide
from candi_lab.bench.limits import bench_limits
from candi_lab.bench.preparing import PrepareSettings, bench_prepare
from candi_lab.bench.sampling import bench_sample
from candi_lab.bench.settings import BenchSettings
from candi_lab.bench.training import bench_train


@dataclass(frozen=True)
class Kind:
    """A benchmark, its own defaults, and settings that mean nothing to it."""

    about: str
    run: Callable[[Any], object]
    defaults: Mapping[str, int] = field(default_factory=dict)
    without: frozenset[str] = frozenset()
    settings: type = BenchSettings


_KINDS = {
    "train": Kind(
        "Time the training step: ours, the plain reference, CANDI against MDLM, each idea, and growth.",
        bench_train,
        without=frozenset({"only"}),
    ),
    "sample": Kind(
        "Time sampling: ours, the plain reference, CANDI against MDLM, and autoregression.",
        bench_sample,
        without=frozenset({"ablation", "only"}),
    ),
    "blocks": Kind(
        "Time writing in blocks, with the cache and without, against left to right and the window at once.",
        bench_blocks,
        without=frozenset({"growth", "ablation", "most_steps", "batch_size", "only"}),
    ),
    "limits": Kind(
        "Time what has a bar, each beside its own: training, sampling, autoregression, small models.",
        bench_limits,
        without=frozenset({"growth", "ablation", "most_steps", "batch_size"}),
    ),
    "guide": Kind(
        "Time guidance at the size of molecules: methods with each classifier that can guide them, and without.",
        bench_guide,
        {"vocab_size": 23, "length": 32},  # QM9's tokens
        frozenset({"growth", "ablation", "most_steps", "only"}),
    ),
    "prepare": Kind(
        "Time candi prepare: by cores, by kind of file, and its memory by the size of the data.",
        bench_prepare,
        settings=PrepareSettings,
    ),
}


def run(arguments: Sequence[str]) -> None:
    if not arguments or arguments[0] in ("-h", "--help"):
        print("usage: candi-lab bench train|sample|blocks|limits|guide|prepare [options]\n")
        print(*(f"  {name:<8}{kind.about}" for name, kind in _KINDS.items()), sep="\n")
        return
    name = arguments[0]
    if name not in _KINDS:
        raise unknown("benchmark", name, _KINDS)
    kind = _KINDS[name]
    flags = parser(f"bench {name}", "", kind.about, program="candi-lab")
    flags.add_class_arguments(kind.settings, skip=set(kind.without))
    flags.set_defaults({"out": Path(f"bench-{name}.json"), **kind.defaults})
    given = parse(flags, arguments[1:])
    try:
        kind.run(kind.settings(**vars(given)))
    except OSError as error:
        raise UserError(f"The results cannot be written ({error}); choose another --out.") from error
