"""The training loop."""

import dataclasses
import json
import time
from dataclasses import dataclass, field
from pathlib import Path

import torch
from lightning.fabric import Fabric
from lightning.fabric.utilities.rank_zero import rank_zero_only
from torch import Tensor

from candi.codebook import Codebook
from candi.config import ModelConfig, read_json
from candi.data.cache import default_folder, load_tokenizer
from candi.data.corpus import Corpus
from candi.data.rows import Sequences
from candi.data.tokenizer import Tokenizer
from candi.errors import UserError
from candi.files import write_text
from candi.model import WEIGHTS, Model, write_model
from candi.nets.denoiser import Denoiser
from candi.nets.transformer import parameter_count
from candi.rng import derive
from candi.tensors import read_tensors, write_tensors
from candi.training import checkpoint
from candi.training.devices import connect
from candi.training.display import Display
from candi.training.feed import Feed
from candi.training.interrupt import Interrupt, graceful
from candi.training.learner import Learner, Outcome
from candi.training.optim import learning_rate
from candi.training.run import TOKENIZER, Metrics, Run
from candi.training.settings import TrainSettings
from candi.training.sources import sequences

TRAINING, PROGRESS = "training.safetensors", "progress.json"


def train(settings: TrainSettings) -> Path:
    """Train until the steps are done, continuing what the run's folder holds. Returns the newest checkpoint."""
    run = Run(settings.out)
    fabric = connect(settings)
    corpus = Corpus(settings.data, settings.text_field)
    cache = settings.cache or default_folder()
    try:
        if rank_zero_only.rank == 0:  # type: ignore[attr-defined]
            # before other processes exist, so that a mistake is told once, and before anything is written
            tokenizer = checked(settings, run, corpus, cache)
            run.claim(settings, corpus)
            write_text(run.folder / TOKENIZER, tokenizer.json)
        fabric.launch()
        fabric.barrier()
        tokenizer = Tokenizer.load(run.folder / TOKENIZER)
        windows, valid = sequences(settings, corpus, tokenizer, cache)
        return Training(settings, fabric, run, tokenizer, windows, valid).go()
    except OSError as error:
        raise UserError(
            f"Reading or writing failed ({error}); {_newest(run)}. Mend that and run the same command again."
        ) from error
    finally:
        run.release()


def checked(settings: TrainSettings, run: Run, corpus: Corpus, cache: Path) -> Tokenizer:
    """The tokenizer of a run that can be begun or continued, its data tokenized; nothing is written to its folder."""
    run.check(settings, corpus)
    kept = run.folder / TOKENIZER
    tokenizer = (
        Tokenizer.load(kept) if kept.exists() else load_tokenizer(settings.tokenizer, corpus, cache, settings.skip_bad)
    )
    sequences(settings, corpus, tokenizer, cache)
    assert settings.settings is not None
    settings.settings.build(Codebook(tokenizer.vocab_size, 2))  # a method may refuse its settings here
    return tokenizer


def _newest(run: Run) -> str:
    folders = checkpoint.found(run.checkpoints)
    return f"the last good checkpoint is {folders[0]}" if folders else "there is no checkpoint yet"


@dataclass
class Progress:
    """Where a run stands, apart from its tensors. Losses are summed until the next line of metrics."""

    step: int = 0
    seconds: float = 0.0
    loss_sum: float = 0.0
    loss_count: int = 0


@dataclass
class Training:
    """One process of a run."""

    settings: TrainSettings
    fabric: Fabric
    run: Run
    tokenizer: Tokenizer
    windows: Sequences
    valid: Sequences | None
    progress: Progress = field(default_factory=Progress)

    def __post_init__(self) -> None:
        settings = self.settings
        assert settings.settings is not None
        self.config = ModelConfig(
            self.tokenizer.vocab_size,
            settings.length,
            settings.method,
            settings.settings,
            settings.model,
            settings.label,
        )
        torch.manual_seed(settings.seed)
        denoiser = Denoiser.build(self.config.vocab_size, settings.model, settings.settings, self.config.classes)
        self.size = parameter_count(denoiser)
        self.learner = Learner(denoiser, settings, self.fabric)
        self.loss_sum = torch.zeros((), device=self.fabric.device)
        self.bad_step = torch.full((), -1.0, device=self.fabric.device)
        self.micro_batch = settings.micro_batch or settings.batch // self.fabric.world_size

    def go(self) -> Path:
        with Display(self.settings.steps, silent=not self.fabric.is_global_zero) as display:
            self._restore(display)
            if self._finished():
                display.say(f"{self.run.folder} is trained already ({self.progress.step} steps); nothing to do.")
                return checkpoint.found(self.run.checkpoints)[0]
            display.say(self._summary())
            display.begin(self.progress.step)
            with graceful() as interrupt:
                metrics = Metrics(self.run.folder, self.progress.step) if self.fabric.is_global_zero else None
                try:
                    self._steps(display, metrics, interrupt)
                finally:
                    if metrics is not None:
                        metrics.close()
            if not self._finished():
                display.say(f"Stopped at step {self.progress.step} and saved; the same command continues.")
        return checkpoint.found(self.run.checkpoints)[0]

    def _steps(self, display: Display, metrics: Metrics | None, interrupt: Interrupt) -> None:
        settings, progress = self.settings, self.progress
        begun = time.monotonic() - progress.seconds
        logged, logged_at = progress.step, time.monotonic()
        stopped = False
        while not (stopped or self._finished()):
            outcome = self.update(display)
            stopped = self._agree(time.monotonic() - begun, interrupt)
            display.advance(progress.step)
            last = self._finished()
            values: dict[str, float] = {}
            if last or progress.step % settings.log_every == 0:
                pace = (progress.step - logged) / (time.monotonic() - logged_at)
                logged, logged_at = progress.step, time.monotonic()
                values = self._measure(outcome) | {"tokens_per_second": pace * settings.batch * settings.length}
            if self.valid is not None and (last or progress.step % settings.validate_every == 0):
                values["valid_loss"] = self._validate(self.valid)
            if values:
                display.show(progress.step, values)
            if values and metrics is not None:
                metrics.write(progress.step, values)
            if settings.sample_every and (last or progress.step % settings.sample_every == 0):
                self._sample()
            if last or stopped or progress.step % settings.checkpoint_every == 0:
                self._save()

    def update(self, display: Display) -> Outcome:
        """One step, with as many sequences at once as memory holds."""
        step = self.progress.step
        while (outcome := self._attempt(step)) is None:
            display.say(self._less_at_once())
        self.progress.step += 1
        self.progress.loss_count += 1
        self.loss_sum += outcome.loss
        finite = torch.isfinite(outcome.loss) & torch.isfinite(outcome.gradient_norm)
        self.bad_step = torch.where((self.bad_step < 0) & ~finite, float(step + 1), self.bad_step)
        return outcome

    def _attempt(self, step: int) -> Outcome | None:
        """None where memory does not suffice; the step can be tried again from its beginning."""
        # dropout alone uses the global generator; it too starts anew each step
        torch.manual_seed(derive(self.settings.seed, "dropout", step, self.fabric.global_rank))
        try:
            return self.learner.update(step, self._feed(self.windows).step(step))
        except RuntimeError as error:
            if isinstance(error, torch.OutOfMemoryError) or "DefaultCPUAllocator" in str(error):
                return None
            raise

    def _less_at_once(self) -> str:
        """The next smaller micro-batches that a batch can be cut into, or a refusal."""
        share, before = self.settings.batch // self.fabric.world_size, self.micro_batch
        smaller = max((size for size in range(1, before) if share % size == 0), default=0)
        advice = "Give less --length or a smaller --model" if not smaller else f"Give --micro_batch {smaller}"
        if not smaller or self.fabric.world_size > 1:  # several devices would have to agree
            raise UserError(f"{before} sequences at once are too many for the memory of the device. {advice}.")
        self.micro_batch = smaller
        self.learner.forget()
        return f"{before} sequences at once are too many for the memory of the device; going on with {smaller}."

    def _agree(self, seconds: float, interrupt: Interrupt) -> bool:
        """All processes share the first one's clock and any one's wish to stop; several meet for it now and then."""
        if self.fabric.world_size == 1:
            self.progress.seconds = seconds
            return interrupt.asked
        if self.progress.step % self.settings.log_every:
            return False
        self.progress.seconds = self.fabric.broadcast(seconds)
        return bool(self._reduce(self.bad_step.new_tensor(float(interrupt.asked)), "max"))

    def _finished(self) -> bool:
        minutes = self.settings.minutes
        spent = minutes is not None and self.progress.seconds >= 60 * minutes
        return self.progress.step >= self.settings.steps or spent

    def _measure(self, outcome: Outcome) -> dict[str, float]:
        self._check_finite()
        loss = float(self._reduce(self.loss_sum, "mean")) / self.progress.loss_count
        self.loss_sum, self.progress.loss_count = torch.zeros_like(self.loss_sum), 0
        return {
            "loss": loss,
            "learning_rate": learning_rate(self.settings, self.progress.step - 1),
            "gradient_norm": float(outcome.gradient_norm),
            "seconds": self.progress.seconds,
        }

    def _check_finite(self) -> None:
        worst = int(self._reduce(self.bad_step, "max"))
        if worst >= 0:
            raise UserError(
                f"The loss or its gradient stopped being finite at step {worst}; {_newest(self.run)}. "
                "Try a lower --learning_rate in a new --out."
            )

    def _validate(self, windows: Sequences) -> float:
        """Mean loss of the averaged weights on fixed sequences, times and noise."""
        total, count = self.learner.validate(self._feed(windows).validation(self.settings.validate_windows))
        return float(self._reduce(total, "sum")) / float(self._reduce(count, "sum"))

    def _sample(self) -> None:
        """Texts from the averaged weights, into the run's folder."""
        weights = self.learner.averaged()
        if self.fabric.is_global_zero:
            denoiser = Denoiser.build(
                self.config.vocab_size, self.config.model, self.config.settings, self.config.classes
            )
            denoiser.load_state_dict(weights)
            model = Model(denoiser.to(self.fabric.device), self.tokenizer, self.config)
            settings = self.settings
            texts = model.generate(settings.samples, steps=settings.sample_steps, seed=settings.seed)
            self.run.write_samples(self.progress.step, texts)
        self.fabric.barrier()

    def _save(self) -> None:
        self._check_finite()
        averaged, training = self.learner.averaged(), self.learner.training()
        progress = dataclasses.replace(self.progress, loss_sum=float(self._reduce(self.loss_sum, "mean")))

        def fill(folder: Path) -> None:
            write_model(folder, averaged, self.tokenizer, self.config)
            write_tensors(training, folder / TRAINING)
            (folder / PROGRESS).write_text(json.dumps(dataclasses.asdict(progress)) + "\n", encoding="utf-8")

        if self.fabric.is_global_zero:
            checkpoint.write(self.run.checkpoints, self.progress.step, fill, self.settings.keep)
        self.fabric.barrier()

    def _restore(self, display: Display) -> None:
        """Continue from the newest intact checkpoint, if there is one."""
        folder = next(checkpoint.intact(self.run.checkpoints, display.say), None)
        self.fabric.barrier()
        if folder is None:
            return
        self.progress = Progress(**read_json(folder / PROGRESS))
        self.loss_sum.fill_(self.progress.loss_sum)
        self.learner.restore(self.progress.step, read_tensors(folder / WEIGHTS), read_tensors(folder / TRAINING))
        if not self._finished():
            display.say(f"Continuing {self.run.folder} from step {self.progress.step}.")

    def _feed(self, windows: Sequences) -> Feed:
        fabric, settings = self.fabric, self.settings
        return Feed(
            windows=windows,
            batch=settings.batch,
            micro_batch=self.micro_batch,
            seed=settings.seed,
            rank=fabric.global_rank,
            world=fabric.world_size,
            device=fabric.device,
        )

    def _reduce(self, tensor: Tensor, how: str) -> Tensor:
        reduced = self.fabric.all_reduce(tensor.clone(), reduce_op=how)
        assert isinstance(reduced, Tensor)
        return reduced

    def _summary(self) -> str:
        settings, fabric = self.settings, self.fabric
        where = f"{fabric.world_size} x {fabric.device.type}" if fabric.world_size > 1 else fabric.device.type
        return (
            f"{settings.method}, {self.size / 1e6:.1f}M parameters, vocabulary {self.config.vocab_size}, "
            f"{self.windows.size}; {settings.steps} steps of {settings.batch} x "
            f"{settings.length} tokens on {where}, into {settings.out}"
        )
