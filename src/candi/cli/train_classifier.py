"""candi train-classifier"""

from collections.abc import Sequence

from candi.cli.parsing import build, parse, parser
from candi.training.classifier import ClassifierSettings, train_classifier


def run(arguments: Sequence[str]) -> None:
    flags = parser(
        "train-classifier", "RUN --data MOLECULES --label RULE --out DIR", "Train a classifier that can guide a run."
    )
    flags.add_argument("run", type=str, help="The run that it is to guide.")
    flags.add_class_arguments(ClassifierSettings, skip={"run"})
    given = build(flags, parse(flags, arguments), ("model",))
    train_classifier(ClassifierSettings(**vars(given)))
