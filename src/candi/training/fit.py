"""Training a denoiser: from Python, and as `candi train` calls it."""

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from lightning.fabric import Fabric
from lightning.fabric.utilities.rank_zero import rank_zero_only
from torch import Tensor

from candi.base.errors import UserError
from candi.base.files import write_text
from candi.base.shards import tensors_hash
from candi.data.cache import default_folder, load_tokenizer
from candi.data.corpus import Corpus
from candi.data.datasets import Dataset, load_dataset
from candi.data.tokenizer import Tokenizer
from candi.model.files import WEIGHTS, write_about
from candi.model.model import Model
from candi.nets.config import ModelConfig
from candi.nets.denoiser import Denoiser
from candi.nets.fp8 import eight_bit
from candi.training.devices import accelerator, connect
from candi.training.loop import Loop, newest
from candi.training.objective import DenoisingObjective, Objective
from candi.training.run import TOKENIZER, Run, RunRecord
from candi.training.settings import FitSettings, TrainSettings
from candi.training.start import rates, start_from, started_config
from candi.training.team import Team, together


@dataclasses.dataclass(frozen=True)
class DenoiserTask:
    """A denoiser that is trained."""

    network: Denoiser
    tokenizer: Tokenizer
    config: ModelConfig
    label_dropout: float = 0.0
    rates: Mapping[str, float] = dataclasses.field(default_factory=dict)

    @property
    def about(self) -> str:
        return f"{self.config.method}, vocabulary {self.config.vocab_size}"

    def objective(self, compile: bool) -> Objective:
        return DenoisingObjective(self.network, self.label_dropout, compile)

    def write(self, folder: Path) -> None:
        write_about(folder, self.tokenizer, self.config)

    def sample(self, weights: dict[str, Tensor], settings: FitSettings, device: torch.device) -> list[str]:
        denoiser = Denoiser.build(self.config)
        denoiser.load_state_dict(weights)
        model = Model(denoiser.to(device), self.tokenizer, self.config)
        return model.generate(settings.samples, steps=settings.sample_steps, seed=settings.seed)


def fit(denoiser: Denoiser, dataset: Dataset, settings: FitSettings | None = None, **values: Any) -> Model:
    """Train a denoiser on a dataset, continuing what the run's folder `out` holds. Returns the trained model.

    Settings are given as `FitSettings`, or as their values: fit(denoiser, dataset, out="runs/mine", steps=1000).
    """
    if "out" in values:
        values["out"] = Path(values["out"])
    if settings is None:
        if "out" not in values:
            raise UserError("Say where the run is kept: fit(denoiser, dataset, out=FOLDER).")
        settings = FitSettings(**values)
    elif values:
        settings = dataclasses.replace(settings, **values)
    fabric, run = connect(settings), Run(settings.out)
    with together(fabric, settings.nodes, lambda: newest(run)) as team, disk_errors(run):
        team.share(settings.out)
        made = team.in_turn(lambda: Prepared(dataset, denoiser))
        return Model.read(_run(made, settings, fabric, team), fabric.device)


@dataclasses.dataclass(frozen=True)
class Prepared:
    """What a run is made of. Where it starts from trained weights, `rates` are fractions of the learning rate for
    them, and `start` is their source and hash."""

    dataset: Dataset
    denoiser: Denoiser
    rates: Mapping[str, float] = dataclasses.field(default_factory=dict)
    start: Mapping[str, str] | None = None


def _run(made: Prepared, settings: FitSettings, fabric: Fabric, team: Team) -> Path:
    """The newest checkpoint, once the training is done."""
    denoiser, dataset = made.denoiser, made.dataset
    config = denoiser.config
    if config is None:
        raise UserError("This denoiser has no config and cannot be saved; make it with Denoiser.build(config).")
    built, found = (config.vocab_size, config.length, config.labels, config.rows), dataset.sizes
    if built != found:
        raise UserError(
            f"The denoiser is built for a vocabulary, length, labels and rows of {built}, the dataset has {found}; "
            "build it for the dataset."
        )
    if dataset.block != config.block:
        raise UserError(
            f"The denoiser writes blocks of {config.block}, the dataset is for blocks of {dataset.block}; load it with "
            f"block={config.block}."
        )
    denoiser.method.check_training()
    if config.labels and not settings.label_dropout:
        raise UserError("--label-dropout must be above 0: what is learned without labels is needed as well.")
    run, record = Run(settings.out), run_record(settings, config, dataset.fingerprint, made.start)
    with disk_errors(run), claimed(run, record, settings, dataset.tokenizer):
        if denoiser.method.gaussian() is not None:
            denoiser.method.frequencies = dataset.frequencies()
        team.all_ready()
        fabric.launch()
        if settings.precision == "fp8-mixed":
            eight_bit(denoiser.trunk)
        task = DenoiserTask(denoiser, dataset.tokenizer, config, settings.label_dropout, made.rates)
        folder = Loop(task, dataset.train, dataset.valid, settings, fabric, run).go()
        fabric.barrier()
    return folder


def run_record(
    settings: FitSettings, config: ModelConfig, data: str, start: Mapping[str, str] | None = None
) -> RunRecord:
    """What makes a run this run. The vocabulary follows from data and tokenizer."""
    follows = {"vocab_size", "labels", *settings.decided_by_source}
    network = {"label": config.label} | {n: value for n, value in config.to_json().items() if n not in follows}
    return RunRecord(network | settings.to_json(), data, settings.defaults(), start)


@contextmanager
def claimed(run: Run, record: RunRecord, settings: FitSettings, tokenizer: Tokenizer) -> Iterator[None]:
    """The run's folder, held by the first process of this command while it trains.

    Entered before other processes exist, so that a mistake is reported once, and before anything is written.
    """
    try:
        if is_first_process():
            run.check(record)
            run.claim(record, accelerator(settings))
            write_text(run.folder / TOKENIZER, tokenizer.json)
        yield
    finally:
        run.release()


@contextmanager
def disk_errors(run: Run) -> Iterator[None]:
    """A failure of the disk as a sentence that says where the run can be continued from."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"Reading or writing failed ({error}); {newest(run)}. Mend that and run the same command again."
        ) from error


def is_first_process() -> bool:
    return rank_zero_only.rank == 0  # type: ignore[attr-defined,no-any-return]


def train(settings: TrainSettings, start: Path | None = None) -> Path:
    """Train a run until its steps are done, continuing what its folder holds. Returns the newest checkpoint.

    `start` is the folder with the files of the model that --init names.
    """
    fabric, run = connect(settings), Run(settings.out)
    with together(fabric, settings.nodes, lambda: newest(run)) as team, disk_errors(run):
        team.share(settings.out)
        made = team.in_turn(lambda: prepare(settings, start))
        return _run(made, settings, fabric, team)


def prepare(settings: TrainSettings, start: Path | None = None) -> Prepared:
    """Dataset and network of a run that can be begun or continued; nothing is written to its folder."""
    run, corpus = (
        Run(settings.out),
        Corpus(settings.data, settings.text_field, settings.rows, settings.chat, settings.stream),
    )
    with disk_errors(run):
        run.check(RunRecord(settings.to_json(), corpus.fingerprint, settings.defaults()))
        kept, cache = run.folder / TOKENIZER, settings.cache or default_folder()
        source = None if start is None else Model.read(start)
        if source is not None:
            config, tokenizer = started_config(settings, source.config), source.tokenizer
        elif kept.exists():
            tokenizer = Tokenizer.load(kept)
        else:
            tokenizer = load_tokenizer(settings.tokenizer, corpus, cache, settings.skip_bad)
        block = settings.block if source is None else config.block
        dataset = load_dataset(
            settings.data, tokenizer, settings.length, valid=settings.valid, valid_fraction=settings.valid_fraction,
            text_field=settings.text_field, rows=settings.rows, chat=settings.chat, label=settings.label,
            skip_bad=settings.skip_bad, stream=settings.stream, seed=settings.seed, cache=settings.cache,
            block=block,
        )  # fmt: skip
    torch.manual_seed(settings.seed)
    config = settings.model_config(tokenizer.vocab_size) if source is None else config
    denoiser = Denoiser.build(dataclasses.replace(config, labels=dataset.labels, rows=dataset.rows))
    if source is None or start is None:
        return Prepared(dataset, denoiser)
    old = start_from(denoiser, source)
    origin = {"source": str(settings.init), "sha256": tensors_hash(start / WEIGHTS)}
    return Prepared(dataset, denoiser, rates(settings, old), origin)
