"""A trained model with its tokenizer: load, generate, sample, save."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from huggingface_hub import ModelHubMixin, snapshot_download
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from candi.base.errors import UserError, unknown
from candi.base.labels import Asked, class_numbers
from candi.base.rng import Rng, fold_in
from candi.base.types import Mask, Tokens
from candi.data.pieces import Part
from candi.data.tokenizer import Tokenizer
from candi.diffusion import guidance
from candi.diffusion.guidance.classifier_free import Conditional
from candi.diffusion.sampler import Denoise, SampleStep, bind, last_state, sample
from candi.diffusion.state import State
from candi.diffusion.steps import FIRST_HITTING
from candi.model.files import (
    CARD,
    CONFIG,
    TOKENIZER,
    WEIGHTS,
    check_weights,
    read_config,
    read_denoiser,
    recommended,
    write_model,
)
from candi.model.streaming import Stop, before, stops, streamed
from candi.nets.blockwise import BlockDenoiser, sample_blocks
from candi.nets.causal import KVCachedDenoiser, sample_causally
from candi.nets.config import ModelConfig
from candi.nets.denoiser import Denoiser
from candi.nets.engine import Engine
from candi.nets.fp8 import need_eight_bits

PRECISIONS = ("auto", "bf16", "float32", "fp8-mixed")


@dataclass(frozen=True)
class Template:
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
        model_config: ModelConfig | None = None,
        recommended: Mapping[str, Any] | None = None,
    ) -> None:
        # the argument is not called `config`: the hub mixin would fill one of that name by itself
        config = model_config or denoiser.config
        if config is None:
            raise UserError(
                "A model needs to know what its denoiser is built from; make it with Denoiser.build(config)."
            )
        if tokenizer.vocab_size != config.vocab_size:
            raise UserError(
                f"The tokenizer has {tokenizer.vocab_size} tokens but the model was trained with "
                f"{config.vocab_size}; use the tokenizer.json that was saved with the model."
            )
        self.denoiser, self.tokenizer, self.config = denoiser, tokenizer, config
        # of each block a step a token at most, by default
        steps = 32 if config.block is None else min(32, config.block)
        self.recommended = {"steps": steps, "temperature": 1.0, **(recommended or {})}
        # where a block would take a step a token anyway, each token comes at its own exact time
        orders = denoiser.method.options.get("order", ())
        self._one_by_one = steps == config.block and not recommended and FIRST_HITTING in orders
        self._engine: tuple[object, Engine] | None = None

    @property
    def rows(self) -> bool:
        """Whether each of its sequences is a document, which ends and is padded."""
        return self.config.rows or self.tokenizer.framed

    def texts(self, tokens: Tokens) -> list[str]:
        """Sequences as text: up to their end, or a stream in which the ends of documents are seen."""
        return [self.text(row) for row in tokens.tolist()]

    def text(self, row: Sequence[int], given: int = 0, *, stop: Stop = None, ends: bool = True) -> str:
        """The same of one sequence, the first tokens of which were given: it ends behind them, at its end or before a

        `stop` string. Without `ends` it goes on behind its end, as a stream.
        """
        if self.rows:
            return before(self.tokenizer.show(row, True), stop, self.tokenizer.show(row[:given]))
        new, end = list(row[given:]), self.tokenizer.end
        if ends and self.config.block is not None and end in new:
            new = new[: new.index(end)]
        return before(self.tokenizer.show([*row[:given], *new]), stop, self.tokenizer.show(row[:given]))

    def completion(self, tokens: Sequence[int], stop: Stop = None) -> str:
        """What follows a prompt, as text, without marks."""
        return before(self.tokenizer.decode(tokens, self.rows or self.config.block is not None), stop)

    def given(self, options: Mapping[str, Any], number: int = 0) -> int:
        """How many tokens a sample begins with that are given, by the options of `trajectory`."""
        templates = options.get("templates")
        asked = {name: options[name] for name in ("length", "prompt", "infill", "blank") if name in options}
        known = (self.template(**asked) if templates is None else templates[number]).known.tolist()
        return known.index(False) if False in known else len(known)

    @property
    def device(self) -> torch.device:
        return self.denoiser.head.weight.device

    def to(self, device: torch.device | str) -> "Model":
        self.denoiser.to(device)
        return self

    def generate(self, n: int = 1, *, batch_size: int = 64, seed: int = 0, **options: Any) -> list[str]:
        """`n` texts. See `trajectory` for the options. A text depends on (seed, its number), not on the batch size."""
        tokens = self.sample(n, batch_size=batch_size, seed=seed, **options).tolist()
        how = {name: options[name] for name in ("stop", "ends") if name in options}
        one = None if options.get("templates") is not None else self.given(options)
        return [
            self.text(row, self.given(options, number) if one is None else one, **how)
            for number, row in enumerate(tokens)
        ]

    def stream(self, *, seed: int = 0, **options: Any) -> Iterator[str]:
        """One text in pieces, each as soon as it will not change any more: block by block, from left to right token by

        token, and of other methods whole. The options are those of `trajectory`.
        """
        given, stop, ends = self.given(options), options.get("stop"), bool(options.get("ends", True))
        method = self.denoiser.method
        yield from streamed(
            self.trajectory(1, seed=seed, **options), method.decode,
            lambda row: self.text(row, given, stop=stop, ends=ends), causal=method.causal,
            held=max((len(one) - 1 for one in stops(stop)), default=0), end=self.tokenizer.end if self.rows else None,
        )  # fmt: skip

    def sample(
        self, n: int = 1, *, batch_size: int = 64, seed: int = 0, templates: Sequence[Template] | None = None,
        **options: Any,
    ) -> Tokens:  # fmt: skip
        """`n` token sequences [n, L], or one for each template."""
        n = n if templates is None else len(templates)
        if n < 1 or batch_size < 1:
            raise UserError(f"At least 1 sample in batches of at least 1 is needed, not {n} in {batch_size}.")
        counts = [(start, min(batch_size, n - start)) for start in range(0, n, batch_size)]

        def end(start: int, count: int) -> State:
            some = None if templates is None else templates[start : start + count]
            return last_state(self.trajectory(count, seed=seed, first=start, templates=some, **options))

        ends = (end(start, count) for start, count in counts)
        return torch.cat([self.denoiser.method.decode(state).cpu() for state in ends])

    def trajectory(
        self,
        n: int = 1,
        *,
        length: int | None = None,
        steps: int | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        prompt: str | None = None,
        infill: str | None = None,
        blank: str = "_",
        templates: Sequence[Template] | None = None,
        stop: Stop = None,
        ends: bool = True,
        cache: bool = True,
        seed: int = 0,
        first: int = 0,
        precision: str = "auto",
        compile: bool = False,
        label: Asked | None = None,
        label_weight: float = 0.0,
        guide: guidance.Guidance | None = None,
        **options: str | None,
    ) -> Iterator[SampleStep]:
        """From noise to text: `steps` + 1 states, each with its prediction, of samples number `first` to `first + n`.

        `prompt` is given text at the start; `infill` is a template in which each `blank` is one token to be filled;
        `templates` has one for each sample.
        A model that writes in blocks takes `steps` for each of them, and any `length`: it goes no further than the end
        of the text, unless `ends` is False, or than the block in which one of the `stop` strings is found. Without
        `cache` it reads all that is written anew at every step.
        Steps, temperature and options that are not given are those that the model recommends.
        `precision` auto is bf16 on a GPU and float32 elsewhere, fp8-mixed bf16 with 8-bit products; `compile` pays off
        from some thousand samples on.
        `label` conditions a model that was trained with labels: a class by name or number, or one of each label that
        is asked for; `label_weight` is the weight of classifier-free
        guidance; `guide` steers any model.
        `options` are those of the method's step, such as solver="euler" or inference="approximate".
        """
        method = self.denoiser.method
        asked = any(value is not None for name, value in options.items() if name not in ("grid", "prior"))
        complete = self.with_defaults(steps=steps, temperature=temperature, **options)
        count, warmth = complete.pop("steps"), complete.pop("temperature")
        sampling = bind(method, **complete)
        step = sampling.step
        networks = [self._network(precision, compile, cache) for _ in range(1 if label is None else 2)]
        denoise: Denoise = networks[0]
        if label is not None:
            wanted = class_numbers(self.config.labels, label)
            denoise = guidance.classifier_free(networks[0], networks[1], wanted, label_weight)
        denoise = guidance.tempered(denoise, warmth)
        denoise = denoise if top_k is None else guidance.top_k(denoise, top_k)
        denoise = denoise if top_p is None else guidance.top_p(denoise, top_p)
        if guide is not None:
            guide = self._behind(guide, networks[0])
            plain = step
            denoise, step = guide.over(method, denoise, step)
            if step is not plain and asked:  # what the model recommends was not asked for
                raise UserError("Discrete guidance has a step of its own; leave out the sampling options.")
        each = templates or [self.template(length, prompt, infill, blank)] * n
        seeds = [fold_in(seed, "sample", first + row) for row in range(n)]
        rng = Rng.per_row(seeds, self.device)
        x0: Tokens = torch.stack([template.tokens for template in each]).to(self.device)
        known: Mask = torch.stack([template.known for template in each]).to(self.device)
        block = self.config.block
        if block is not None:  # the last block is written whole and then cut
            more = -x0.shape[1] % block
            x0, known = F.pad(x0, (0, more)), F.pad(known, (0, more))
        with torch.no_grad():
            prior = sampling.prior(x0, known, rng)
        timesteps = sampling.timesteps(count, block or x0.shape[1])
        if block is not None:
            readers = [network for network in networks if isinstance(network, BlockDenoiser)]
            length = len(each[0].tokens)
            walk = sample_blocks(
                readers, denoise, step, prior, timesteps,
                lambda number, rows: self._numbers(rng, seeds, number, rows.tolist()), block,
                window=self.config.length, ended=self._ended(ends, stop), fill=self.tokenizer.pad or 0,
            )  # fmt: skip
            return (one.cut(length) for one in walk) if length < x0.shape[1] else walk
        remembering = [network for network in networks if isinstance(network, KVCachedDenoiser)]
        if remembering and guide is None and self.device.type == "cuda":
            return sample_causally(remembering, denoise, step, prior, timesteps, rng)
        return sample(denoise, step, prior, timesteps, rng)

    def planned_steps(self, known: Tensor, options: Mapping[str, Any]) -> int:
        """Steps of a sequence whose positions are `known` at the start, if its text does not end before."""
        complete, method = self.with_defaults(**options), self.denoiser.method
        block, length = self.config.block or len(known), len(known)
        sampling = bind(method, **{name: value for name, value in complete.items() if name in method.options})
        each = len(sampling.timesteps(complete["steps"], block)) - 1
        blocks = F.pad(known, (0, -length % block)).view(-1, block)
        return each * int((~blocks.all(-1)).sum()) if self.config.block is not None else each

    def _numbers(self, first: Rng, seeds: Sequence[int], number: int, rows: Sequence[int]) -> Rng:
        """Random numbers of a block: of each row its own, whichever others are still written."""
        if number == 0:
            return first
        return Rng.per_row((fold_in(seeds[row], "block", number) for row in rows), self.device)

    def _ended(self, ends: bool, stop: Stop) -> Callable[[Tokens, Mask], Tensor] | None:
        """Which rows of tokens [N, n] are texts that have ended, of which `given` was not written here."""
        end, wanted = self.tokenizer.end if ends else None, stops(stop)
        if end is None and not wanted:
            return None

        def ended(tokens: Tokens, given: Mask) -> Tensor:
            done = torch.zeros(len(tokens), dtype=torch.bool, device=tokens.device)
            if end is not None:
                done = ((tokens == end) & ~given).any(-1)
            if wanted:
                first = (~given).int().argmax(-1).where(~given.all(-1), given.shape[1])
                pairs = list(zip(tokens.tolist(), first.tolist(), strict=True))
                found = [self.text(row, lead, stop=wanted) != self.text(row, lead) for row, lead in pairs]
                done = done | torch.tensor(found, device=tokens.device)
            return done

        return ended

    def _behind(self, guide: guidance.Guidance, network: object) -> guidance.Guidance:
        """Guidance that knows what is written before the open block, of a model that writes in blocks."""
        if not isinstance(network, BlockDenoiser):
            return guide
        if not isinstance(guide, guidance.BlockGuidance):
            raise UserError(
                f"{type(guide).__name__} cannot steer a text that is written in blocks; give it a method `behind`."
            )
        return guide.behind(lambda: network.tokens)

    def with_defaults(self, **options: Any) -> dict[str, Any]:
        """Options, with the model's recommendations for those that are None."""
        found = {**options, **{k: v for k, v in self.recommended.items() if options.get(k) is None}}
        own = [options.get(name) for name in ("steps", "order", "remask")]
        if self._one_by_one and own == [None] * 3 and vars(self.config.settings).get("order") == "random":
            found["order"] = FIRST_HITTING
        return found

    def _network(self, precision: str, compile: bool, cached: bool = True) -> Conditional:
        if precision not in PRECISIONS:
            raise unknown("precision", precision, PRECISIONS)
        self.denoiser.eval()  # nothing is dropped out while sampling
        cuda = self.device.type == "cuda"
        if precision == "fp8-mixed":
            need_eight_bits(self.device.type)
        if (precision == "bf16" or compile) and not cuda:
            raise UserError("Sampling in bf16 and compiled is for a CUDA GPU; leave out --precision and --compile.")
        if compile and precision == "float32":
            raise UserError("Compiled sampling is in bf16; leave out --precision or --compile.")
        cache = self.denoiser.trunk.new_cache() if self.denoiser.method.causal else None
        engine = self._rounded(compile, precision == "fp8-mixed") if cuda and precision != "float32" else None
        if self.denoiser.blocks is not None:
            return BlockDenoiser(self.denoiser, engine, cached)
        if cache is not None:
            return KVCachedDenoiser(self.denoiser, cache, engine)
        return engine or self.denoiser

    def _rounded(self, compile: bool, fp8: bool) -> Engine:
        """The network in bf16, made anew when a weight has changed."""
        weights = [(p.data_ptr(), p._version) for p in self.denoiser.parameters()]
        if self._engine is None or self._engine[0] != (compile, fp8, weights):
            self._engine = (compile, fp8, weights), Engine(self.denoiser, compile, fp8)
        return self._engine[1]

    def template(
        self, length: int | None = None, prompt: str | None = None, infill: str | None = None, blank: str = "_"
    ) -> Template:
        """Given tokens at their positions, everything else open."""
        if prompt and infill:
            raise UserError("Give a prompt or an infill template, not both: a template can begin with the prompt.")
        if length is not None and length < 1:
            raise UserError(f"The length must be at least 1, not {length}.")
        given: list[int | None] = [int(i) for i in self.tokenizer.encode(prompt or "")]
        given = self._filled(infill, blank) if infill else given
        size = length or (len(given) if infill and not self.rows else self.config.length)
        given = [self.tokenizer.begin, *given] if self.tokenizer.framed else given
        if infill and self.rows and self.tokenizer.pad is not None:  # a template is all of a row
            marks = [self.tokenizer.end, *[self.tokenizer.pad] * (size - len(given) - 1)]
            given += marks if self.tokenizer.framed else marks[: max(0, size - len(given))]
        return self._template(given, size, "infill template" if infill else "prompt")

    def opening(self, opening: tuple[Part, ...] | NDArray[np.int64], length: int | None = None) -> Template:
        """What a row of data begins with: text, or integers, of which -1 is to be filled."""
        given: list[int | None] = [self.tokenizer.begin] if self.tokenizer.framed else []
        if isinstance(opening, tuple):
            given += [int(i) for part in opening for i in self.tokenizer.encode(part.text)]
        else:
            if opening.size and int(opening.max()) >= self.config.vocab_size:
                raise UserError(f"The model has no token {int(opening.max())}; it has {self.config.vocab_size} tokens.")
            given += [None if i < 0 else int(i) for i in opening]
        return self._template(given, length or self.config.length, "prompt")

    def _template(self, given: list[int | None], size: int, kind: str) -> Template:
        if len(given) > size:
            raise UserError(
                f"The {kind} has {len(given)} tokens but the sequence only {size}; shorten it or give --length "
                f"{len(given)} at least."
            )
        row = given + [None] * (size - len(given))
        return Template(
            torch.tensor([0 if token is None else token for token in row], device="cpu"),
            torch.tensor([token is not None for token in row], device="cpu"),
        )

    def _filled(self, infill: str, blank: str) -> list[int | None]:
        if len(blank) != 1:
            raise UserError(f"The blank must be a single character, not {blank!r}.")
        row: list[int | None] = []
        for index, text in enumerate(infill.split(blank)):
            row += [None] if index else []
            row += [int(i) for i in self.tokenizer.encode(text)] if text else []
        return row

    @classmethod
    def read(cls, folder: Path, device: torch.device | str = "cpu") -> "Model":
        """From the files of a checkpoint."""
        config, tokenizer, advice = read_config(folder), Tokenizer.load(folder / TOKENIZER), recommended(folder)
        check_weights(folder)
        denoiser = read_denoiser(folder, config)
        return cls(denoiser.to(device).eval(), tokenizer, config, advice)

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
        return cls.read(folder, device)
