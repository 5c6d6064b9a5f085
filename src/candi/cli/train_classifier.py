"""candi train-classifier"""

from collections.abc import Sequence
from dataclasses import asdict

from candi.cli.parsing import build, parse, parser
from candi.hub.loading import load
from candi.nets.dit import DiTSettings
from candi.training.classifier import SMALL, ClassifierSettings, train_classifier

# of models: nothing is sampled, compiled or learned without its label
_USELESS = {"label_dropout", "sample_every", "samples", "sample_steps", "compile", "keep_activations"}


def run(arguments: Sequence[str]) -> None:
    flags = parser(
        "train-classifier", "RUN --data MOLECULES --label RULE --out FOLDER", "Train a classifier that can guide a run."
    )
    flags.add_argument("run", type=str, help="The run that it is to guide.")
    flags.add_class_arguments(ClassifierSettings, skip={"run", "model", *_USELESS})
    flags.add_class_arguments(DiTSettings, "model")
    flags.set_defaults({f"model.{name}": value for name, value in asdict(SMALL).items()})
    settings = ClassifierSettings(**vars(build(flags, parse(flags, arguments), ("model",))))
    train_classifier(settings, load(settings.run, "cpu"))
