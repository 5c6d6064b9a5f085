"""candi bench"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from candi.benchmark.guiding import bench_guide
from candi.benchmark.sampling import bench_sample
from candi.benchmark.settings import BenchSettings
from candi.benchmark.training import bench_train
from candi.cli.parsing import parse, parser
from candi.errors import UserError, unknown

_Defaults = dict[str, int]
_KINDS: dict[str, tuple[str, Callable[[BenchSettings], object], _Defaults, set[str]]] = {
    "train": (
        "Time the training step: ours, the plain reference, CANDI against MDLM, each idea, and growth.",
        bench_train,
        {},
        set(),
    ),
    "sample": (
        "Time sampling: ours, the plain reference, CANDI against MDLM, and autoregression.",
        bench_sample,
        {},
        {"ablation"},
    ),
    "guide": (
        "Time guidance at the size of molecules: methods with each classifier that can guide them, and without.",
        bench_guide,
        {"vocab_size": 23, "length": 32},  # QM9's tokens
        {"growth", "ablation", "most_steps"},
    ),
}


def run(arguments: Sequence[str]) -> None:
    if not arguments or arguments[0] in ("-h", "--help"):
        print("usage: candi bench train|sample|guide [options]\n")
        print(*(f"  {name:<8}{what}" for name, (what, *_) in _KINDS.items()), sep="\n")
        sys.exit(0)
    if arguments[0] not in _KINDS:
        raise unknown("benchmark", arguments[0], _KINDS)
    what, bench, sizes, useless = _KINDS[arguments[0]]
    flags = parser(f"bench {arguments[0]}", "", what)
    flags.add_class_arguments(BenchSettings, skip=useless)
    flags.set_defaults({"out": Path(f"bench-{arguments[0]}.json"), **sizes})
    given = parse(flags, arguments[1:])
    try:
        bench(BenchSettings(**vars(given)))
    except OSError as error:
        raise UserError(f"The results cannot be written ({error}); choose another --out.") from error
