"""candi distill"""

import dataclasses
from collections.abc import Sequence

from candi.cli.parsing import parse, parser
from candi.hub.loading import locate
from candi.training.distill import DistillSettings, distill

_USELESS = {"strategy", "nodes", "sharded_checkpoints", "minutes"}  # one device, rounds that end by their steps


def run(arguments: Sequence[str]) -> None:
    flags = parser("distill", "RUN --out FOLDER", "Train students that take fewer steps than RUN, round by round.")
    flags.add_class_arguments(DistillSettings, skip={"run", *_USELESS})
    flags.add_argument("run", type=str, help="The teacher: a run or model of any method but ar.")
    given = parse(flags, arguments)
    names = {field.name for field in dataclasses.fields(DistillSettings)}
    settings = DistillSettings(**{name: value for name, value in vars(given).items() if name in names})
    student = None if settings.student is None else locate(settings.student)
    distill(settings, locate(settings.run), student)
