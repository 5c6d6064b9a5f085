"""A trained model with its tokenizer: load, generate, walk, save."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import ModelHubMixin, snapshot_download
from torch import Tensor

from candi import guidance
from candi.config import ModelConfig, read_json
from candi.data.tokenizer import Tokenizer
from candi.errors import UserError, unknown
from candi.guidance.classifier_free import Conditional
from candi.nets.denoiser import Denoiser
from candi.nets.prediction import Prediction
from candi.rng import Rng, derive
from candi.sampling.causal import Remembering
from candi.sampling.engine import Engine
from candi.sampling.walk import Denoise, stepper, walk
from candi.shipped import CARD, check_weights, recommended
from candi.state import State
from candi.tensors import read_tensors, write_tensors
from candi.types import Mask, Tokens

PRECISIONS = ("auto", "bf16", "float32")
WEIGHTS, CONFIG, TOKENIZER = "model.safetensors", "config.json", "tokenizer.json"


@dataclass(frozen=True)
class Canvas:
    """The sequence to be filled: tokens [L] and which of them are given."""

    tokens: Tensor
    known: Tensor


class Model(
    ModelHubMixin,
    library_name="candi",
    license="apache-2.0",
    tags=["discrete-diffusion", "text-generation"],
):
    """A denoiser and its tokenizer."""

    def __init__(
        self,
        denoiser: Denoiser,
        tokenizer: Tokenizer,
        recipe: ModelConfig,
        recommended: Mapping[str, Any] | None = None,
    ) -> None:
        # the argument is no `config`: the hub mixin would fill one of that name by itself
        if tokenizer.vocab_size != recipe.vocab_size:
            raise UserError(
                f"The tokenizer has {tokenizer.vocab_size} tokens but the model was trained with "
                f"{recipe.vocab_size}; use the tokenizer.json that was saved with the model."
            )
        self.denoiser, self.tokenizer, self.config = denoiser.eval(), tokenizer, recipe
        self.recommended = {"steps": 32, "temperature": 1.0, **(recommended or {})}
        self._engine: tuple[object, Engine] | None = None

    @property
    def device(self) -> torch.device:
        return self.denoiser.head.weight.device

    def to(self, device: torch.device | str) -> "Model":
        self.denoiser.to(device)
        return self

    def generate(self, n: int = 1, *, batch: int = 64, seed: int = 0, **options: Any) -> list[str]:
        """`n` texts. See `walk` for the options. A text depends on (seed, its number), not on `n` or `batch`."""
        return [self.tokenizer.decode(row) for row in self.sample(n, batch=batch, seed=seed, **options).tolist()]

    def sample(self, n: int = 1, *, batch: int = 64, seed: int = 0, **options: Any) -> Tokens:
        """`n` token sequences [n, L]."""
        if n < 1 or batch < 1:
            raise UserError(f"At least 1 sample in batches of at least 1 is needed, not {n} in {batch}.")
        done = []
        for start in range(0, n, batch):
            count = min(batch, n - start)
            for state in self.walk(count, seed=seed, first=start, **options):  # noqa: B007 - the last one counts
                pass
            done.append(self.denoiser.method.decode(state).cpu())
        return torch.cat(done)

    @torch.no_grad()
    def walk(
        self,
        n: int = 1,
        *,
        length: int | None = None,
        steps: int | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        nucleus: float | None = None,
        prompt: str | None = None,
        infill: str | None = None,
        blank: str = "_",
        seed: int = 0,
        first: int = 0,
        precision: str = "auto",
        compile: bool = False,
        label: int | None = None,
        label_weight: float = 0.0,
        guide: guidance.Guidance | None = None,
        seen: Callable[[State, Prediction], None] | None = None,
        **options: str | None,
    ) -> Iterator[State]:
        """Every state from noise to text, `steps` + 1 of them, for samples number `first` to `first + n`.

        `prompt` is given text at the start; `infill` is a template in which each `blank` is one token to be filled.
        Steps, temperature and options that are not given are those that the model recommends.
        `precision` auto is bf16 on a GPU and float32 elsewhere; `compile` pays off from some thousand samples on,
        and does nothing for a causal method.
        `label` is what a class-conditional model is asked for, `label_weight` how far beyond; `guide` steers any model.
        `seen` is told of every prediction as it is made.
        `options` are those of the method's step, such as solver="euler" or inference="approximate".
        """
        method = self.denoiser.method
        asked = any(value is not None for value in options.values())
        settled = self.settled(steps=steps, temperature=temperature, **options)
        steps, temperature, options = settled.pop("steps"), settled.pop("temperature"), settled
        assert steps is not None
        assert temperature is not None
        step = stepper(method, **options)
        denoise: Denoise = self._network(precision, compile)
        if label is not None:
            self._check_label(label)
            network, without = self._network(precision, compile), self._network(precision, compile)
            denoise = guidance.classifier_free(network, without, label, label_weight)
        denoise = guidance.tempered(denoise, temperature)
        denoise = denoise if top_k is None else guidance.top_k(denoise, top_k)
        denoise = denoise if nucleus is None else guidance.nucleus(denoise, nucleus)
        if guide is not None:
            plain = step
            denoise, step = guide.over(method, denoise, step)
            if step is not plain and asked:  # what the model recommends is no wish of anybody
                raise UserError("Discrete guidance has a step of its own; leave out the sampling options.")
        denoise = denoise if seen is None else _told(denoise, seen)
        canvas = self.canvas(length, prompt, infill, blank)
        moments = method.times(steps, len(canvas.tokens))
        rng = Rng.per_row((derive(seed, "sample", first + row) for row in range(n)), self.device)
        x0: Tokens = canvas.tokens.to(self.device).repeat(n, 1)
        known: Mask = canvas.known.to(self.device).repeat(n, 1)
        return _without_gradients(walk(denoise, step, method.prior(x0, known, rng), moments, rng))

    def settled(self, **options: Any) -> dict[str, Any]:
        """Options with the model's own recommendations where none is given."""
        return {**options, **{k: v for k, v in self.recommended.items() if options.get(k) is None}}

    def _check_label(self, label: int) -> None:
        if not 0 <= label < self.config.classes:
            taught = f"0 or 1 ({self.config.label})" if self.config.label else "none: it was trained without --label"
            raise UserError(f"The model has no label {label}; it has {taught}.")

    def _network(self, precision: str, compile: bool) -> Conditional:
        if precision not in PRECISIONS:
            raise unknown("precision", precision, PRECISIONS)
        cuda = self.device.type == "cuda"
        if (precision == "bf16" or compile) and not cuda:
            raise UserError("Sampling in bf16 and compiled is for a CUDA GPU; leave out --precision and --compile.")
        if compile and precision == "float32":
            raise UserError("Compiled sampling is in bf16; leave out --precision or --compile.")
        if self.denoiser.method.causal:
            return Remembering(self.denoiser, bf16=cuda and precision != "float32")
        if not cuda or precision == "float32":
            return self.denoiser
        weights = [(p.data_ptr(), p._version) for p in self.denoiser.parameters()]
        if self._engine is None or self._engine[0] != (compile, weights):
            self._engine = (compile, weights), Engine(self.denoiser, compile)
        return self._engine[1]

    def canvas(
        self, length: int | None = None, prompt: str | None = None, infill: str | None = None, blank: str = "_"
    ) -> Canvas:
        """Given tokens in their places, everything else open."""
        if prompt and infill:
            raise UserError("Give a prompt or an infill template, not both: a template can begin with the prompt.")
        if length is not None and length < 1:
            raise UserError(f"The length must be at least 1, not {length}.")
        given = self._template(infill, blank) if infill else [int(i) for i in self.tokenizer.encode(prompt or "")]
        size = length or (len(given) if infill else self.config.length)
        if self.tokenizer.pad is not None:  # a row begins with its begin, and a template is all of it
            size = length or self.config.length
            given = [self.tokenizer.begin, *given]
            if infill:
                given += [self.tokenizer.end, *[self.tokenizer.pad] * (size - len(given) - 1)]
        if len(given) > size:
            kind = "infill template" if infill else "prompt"
            raise UserError(
                f"The {kind} has {len(given)} tokens but the sequence only {size}; shorten it or raise --length."
            )
        row = given + [None] * (size - len(given))
        return Canvas(
            torch.tensor([0 if token is None else token for token in row]),
            torch.tensor([token is not None for token in row]),
        )

    def _template(self, infill: str, blank: str) -> list[int | None]:
        if len(blank) != 1:
            raise UserError(f"The blank must be a single character, not {blank!r}.")
        row: list[int | None] = []
        for index, text in enumerate(infill.split(blank)):
            row += [None] if index else []
            row += [int(i) for i in self.tokenizer.encode(text)] if text else []
        return row

    def _save_pretrained(self, save_directory: Path) -> None:
        write_model(save_directory, self.denoiser.state_dict(), self.tokenizer, self.config)

    @classmethod
    def _from_pretrained(
        cls, *, model_id: str, token: str | bool | None = None, device: torch.device | str = "cpu", **options: Any
    ) -> "Model":
        folder = Path(model_id)
        if not folder.is_dir():
            download = {k: options[k] for k in ("revision", "cache_dir", "force_download", "local_files_only")}
            patterns = [WEIGHTS, CONFIG, TOKENIZER, CARD]
            folder = Path(snapshot_download(model_id, token=token, allow_patterns=patterns, **download))
        return read_model(folder, device)


def _told(denoise: Denoise, seen: Callable[[State, Prediction], None]) -> Denoise:
    def denoise_told(state: State) -> Prediction:
        prediction = denoise(state)
        seen(state, prediction)
        return prediction

    return denoise_told


def _without_gradients(states: Iterator[State]) -> Iterator[State]:
    """None while a state is made; what the caller does between two of them is his."""
    while True:
        with torch.no_grad():
            state = next(states, None)
        if state is None:
            return
        yield state


def write_model(folder: Path, weights: dict[str, Tensor], tokenizer: Tokenizer, config: ModelConfig) -> None:
    """model.safetensors, config.json and tokenizer.json."""
    write_tensors(weights, folder / WEIGHTS)
    (folder / CONFIG).write_text(json.dumps(config.to_json(), indent=2) + "\n", encoding="utf-8")
    (folder / TOKENIZER).write_text(tokenizer.json, encoding="utf-8")


def read_model(folder: Path, device: torch.device | str = "cpu") -> Model:
    config = ModelConfig.from_json(read_json(folder / CONFIG), str(folder / CONFIG))
    tokenizer, advice = Tokenizer.load(folder / TOKENIZER), recommended(folder)
    check_weights(folder, folder / WEIGHTS)
    denoiser = Denoiser.build(config.vocab_size, config.model, config.settings, config.classes)
    load_weights(denoiser, folder / WEIGHTS)
    return Model(denoiser.to(device), tokenizer, config, advice)


def load_weights(denoiser: Denoiser, path: Path) -> None:
    """Strict: every weight must be there, no other, each of its shape."""
    weights = read_tensors(path)
    expected = denoiser.state_dict()
    wrong = sorted(weights.keys() ^ expected.keys()) or [
        name for name, tensor in expected.items() if weights[name].shape != tensor.shape
    ]
    if wrong:
        raise UserError(f"{path} does not fit its config.json: {_some(wrong)} missing, unexpected or of another shape.")
    denoiser.load_state_dict(weights)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
