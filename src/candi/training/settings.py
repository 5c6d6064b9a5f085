"""Everything a run is made of."""

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from candi.base.checks import above_zero, at_least, below_one
from candi.base.errors import UserError, unknown
from candi.base.labels import Label
from candi.data.documents import CHAT
from candi.diffusion.methods import METHODS, MethodSettings
from candi.nets.config import ModelConfig, check_block
from candi.nets.dit import DiTSettings
from candi.nets.trunk import TrunkSettings
from candi.nets.trunks import trunk_settings

PARTS = {"embedding": "method.embedding.", "trunk": "trunk.", "head": "head.", "all": ""}  # prefixes of their weights


@dataclass(frozen=True, kw_only=True)
class FitSettings:
    """How a network is trained.

    Args:
        out: Folder of the run. The same command again continues it.
        steps: Optimizer steps. More steps continue a run; a cool-down or curriculum is measured against them.
        minutes: Stop after this much training time, if the steps are not done before.
        batch_size: Sequences in a step, over all devices.
        micro_batch_size: Sequences on one device at once; smaller ones are accumulated. By default all of its share, or
            what the memory of a single device holds of it.
        seed: Decides all noise; of candi train also the weights at the start and the order of the data.
        learning_rate: Of AdamW, constant after the warm-up.
        warmup: Steps in which the learning rate rises from 0.
        cooldown: Steps at the end in which the learning rate falls to 0.
        weight_decay: Of AdamW.
        beta1: Of AdamW.
        beta2: Of AdamW.
        clip: Largest norm of the gradient.
        ema: Decay of the averaged weights that are used for sampling, reached after a warm-up.
        checkpoint_every: Steps between checkpoints.
        keep: Checkpoints kept.
        sharded_checkpoints: With fsdp, each process writes its pieces of the model: for one that no process can hold.
        log_every: Steps between lines of metrics.csv.
        validate_every: Steps between validations; 0 for none.
        validate_windows: Sequences in a validation.
        sample_every: Steps between samples written to the run's folder; 0 for none.
        samples: How many are written.
        sample_steps: In how many sampling steps they are made.
        devices: How many on this machine: auto, or a number.
        nodes: How many machines.
        strategy: auto, ddp (copies of the model) or fsdp (pieces of it).
        precision: auto is bf16 on a GPU and float32 elsewhere; bf16 keeps weights and sums in float32; fp8-mixed
            also makes the products of the trunk's blocks in 8 bits.
        record: Record a step on one GPU as a CUDA graph and replay it, which small models gain from; by default
            batches of at most 32,768 tokens.
        compile: Compile the trunk with torch.compile, which takes a minute at the start; by default on a GPU.
        keep_activations: Fraction of the activations that a compiled trunk keeps for the backward pass; the rest is
            computed again. 1 is fastest, less needs less memory.
        deterministic: The same run gives the same weights on a GPU too, a little slower. A CPU always does.
        device: auto, cpu or cuda.
        label_dropout: Fraction of the sequences that are learned without their label, for classifier-free guidance.
    """

    out: Path
    steps: int = 10_000
    minutes: float | None = None
    batch_size: int = 64
    micro_batch_size: int | None = None
    seed: int = 0
    learning_rate: float = 3e-4
    warmup: int = 250
    cooldown: int = 0
    weight_decay: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.999
    clip: float = 1.0
    ema: float = 0.9999
    checkpoint_every: int = 500
    keep: int = 2
    sharded_checkpoints: bool = False
    log_every: int = 10
    validate_every: int = 500
    validate_windows: int = 128
    sample_every: int = 500
    samples: int = 4
    sample_steps: int = 32
    devices: Literal["auto"] | int = "auto"
    nodes: int = 1
    strategy: Literal["auto", "ddp", "fsdp"] = "auto"
    precision: Literal["auto", "float32", "bf16", "fp8-mixed", "float64"] = "auto"
    record: bool | None = None
    compile: bool | None = None
    keep_activations: float = 0.85
    deterministic: bool = True
    device: Literal["auto", "cpu", "cuda"] = "auto"
    label_dropout: float = 0.1

    def __post_init__(self) -> None:
        values = vars(self)
        for name in (
            "steps", "batch_size", "micro_batch_size", "checkpoint_every", "keep", "log_every", "nodes", "sample_steps",
            "samples", "validate_windows",
        ):  # fmt: skip
            at_least(name, values[name], 1)
        for name in ("warmup", "cooldown", "validate_every", "sample_every", "weight_decay", "seed"):
            at_least(name, values[name], 0)
        for name in ("learning_rate", "clip", "minutes"):
            above_zero(name, values[name])
        for name in ("beta1", "beta2", "ema", "label_dropout"):
            below_one(name, values[name])
        if not 0 <= self.keep_activations <= 1:
            raise UserError(f"--keep-activations must be in [0, 1], not {self.keep_activations}.")
        if self.sharded_checkpoints and self.strategy != "fsdp":
            raise UserError("--sharded-checkpoints are of a model in pieces; give --strategy fsdp as well.")
        if self.sharded_checkpoints and self.sample_every:
            raise UserError("A model in pieces makes no samples on the way; give --sample-every 0 as well.")
        if self.seed >= 2**63:
            raise UserError(f"--seed must be below 2^63, not {self.seed}.")

    @property
    def decided_by_source(self) -> frozenset[str]:
        """Parts of a model's config that another model's weights decide, where a run starts from some."""
        return frozenset()

    def to_json(self) -> dict[str, Any]:
        values = dataclasses.asdict(self)
        return {key: str(value) if isinstance(value, Path) else value for key, value in values.items()}

    def defaults(self) -> dict[str, Any]:
        """What a run was made with that does not name some of the settings, because it is older than they are."""
        values = {f.name: f.default for f in dataclasses.fields(self) if f.default is not dataclasses.MISSING}
        return {k: dataclasses.asdict(v) if dataclasses.is_dataclass(v) else v for k, v in values.items()}  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class TrainSettings(FitSettings):
    """A training run: data, method and network, and how the network is trained.

    Args:
        data: What to learn: a file, a folder or an archive of text, JSON lines, Parquet, tables, molecules, FASTA or
            integers; hf:OWNER/NAME; what candi prepare has made; - (standard input); or pydoc (Python's own manual).
        method: The diffusion method.
        valid: Text to validate on; by default the end of the data.
        valid_fraction: Fraction of the data kept for validation if there is no separate text.
        tokenizer: char, bytes, bpe:SIZE (trained on the data), smiles (molecules), dna, protein, integers, or a path:
            tokenizer.json, or a folder with GPT-2's files. char+unknown has a token for characters that are not there;
            integers:SIZE and integers:FILE (a name a line) state the vocabulary.
        text_field: Column with the text in JSON lines, Parquet and tables.
        rows: Each line, cell or record is a sequence of its own, which ends and is padded; by default rows of integers
            and what has prompts are, and all else is one stream that is cut into sequences.
        stream: Read the data as it is needed and keep nothing of it, shuffled in blocks of 4,096 sequences: for what
            fits no disk. Each process reads all of it.
        chat: How a message of a chat is written, with {role} and {content}.
        cache: Folder for tokenized data; by default under the user's cache folder.
        label: Learn to generate by labels, with commas between several: a column of classes, or a number and a rule, as
            qed:top, rings>=2 or COLUMN>=0.5.
        skip_bad: Leave out documents that are too long or no molecules, instead of refusing them.
        length: Tokens in a sequence.
        block: Write sequences in blocks of so many tokens, each by the method from those before it: texts of any
            length, that end where they should. By default the whole length at once.
        trunk: The network between token vectors and head: dit (our diffusion transformer), or package.module:Class.
        init: Weights to start from, whose network and tokenizer the run then has: a run or model of any method, a
            published checkpoint (a folder or hf:OWNER/NAME), a GGUF file, or smollm2.
        init_rate: Learning rate of the weights that come from --init, as a fraction of --learning-rate.
        freeze: Parts that keep the weights of --init: all, or a list of embedding, trunk, head. What is new is learned.
        model: The trunk's settings.
        settings: The method's settings.
    """

    data: str
    method: str = "candi"
    valid: str | None = None
    valid_fraction: float = 0.05
    tokenizer: str = "char"
    text_field: str = "text"
    rows: bool | None = None
    chat: str = CHAT
    stream: bool = False
    cache: Path | None = None
    label: str | None = None
    skip_bad: bool = False
    length: int = 256
    block: int | None = None
    trunk: str = "dit"
    init: str | None = None
    init_rate: float = 1.0
    freeze: str | None = None
    model: TrunkSettings = field(default_factory=DiTSettings)
    settings: MethodSettings | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.method not in METHODS:
            raise unknown("method", self.method, METHODS)
        if self.settings is None:
            object.__setattr__(self, "settings", METHODS[self.method]())
        at_least("length", self.length, 1)
        check_block(self.block, self.length)
        below_one("valid_fraction", self.valid_fraction)
        above_zero("init_rate", self.init_rate)
        for part in self.frozen:
            if part not in PARTS:
                raise unknown("part", part, PARTS)
        if self.init is None and (self.frozen or self.init_rate != 1):
            raise UserError("--freeze and --init-rate are about the weights of --init; give it, or leave them out.")
        if self.label is not None and not self.label_dropout:
            raise UserError("--label-dropout must be above 0: what is learned without labels is needed as well.")

    @property
    def decided_by_source(self) -> frozenset[str]:
        return frozenset() if self.init is None else frozenset({"unit_vectors"})

    @property
    def frozen(self) -> list[str]:
        """Parts of the network whose weights from --init stay as they are."""
        return [part.strip() for part in (self.freeze or "").split(",") if part.strip()]

    @property
    def method_settings(self) -> MethodSettings:
        assert self.settings is not None
        return self.settings

    def model_config(self, vocab_size: int, labels: tuple[Label, ...] = (), rows: bool = False) -> ModelConfig:
        """The network, for a vocabulary and labels."""
        return ModelConfig(
            vocab_size, self.length, self.method, self.method_settings, self.model, labels, self.trunk, rows=rows,
            block=self.block,
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """The method's settings stand under its name."""
        values = super().to_json()
        values[self.method] = values.pop("settings")
        return values

    def defaults(self) -> dict[str, Any]:
        values = {name: value for name, value in super().defaults().items() if name != "settings"}
        return values | {
            "model": dataclasses.asdict(trunk_settings(self.trunk)()),
            self.method: dataclasses.asdict(METHODS[self.method]()),
        }
