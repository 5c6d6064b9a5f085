"""Models of ours in lm-evaluation-harness: its tasks, answered by our likelihoods and samples.

Importing this registers the model `candi` with that project; `candi lm-eval` does so and calls its command.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM
from lm_eval.api.registry import register_model

from candi.base.progress import say
from candi.evaluation.answers import Continuation, continuations
from candi.hub.loading import load
from candi.model.model import Model

_NUMBERS = ("steps", "temperature", "top_k", "top_p")
_TOKENS = 256  # that are generated at most, where a task does not say


@register_model("candi")
class CandiLM(LM):  # type: ignore[misc] # the harness has no types
    """--model candi --model_args pretrained=RUN,times=32,steps=32: a run, a model of the hub or one that ships.

    `times` are drawn for each bound; `steps`, `temperature` and a method's options are for samples.
    """

    def __init__(
        self, pretrained: str, batch_size: int | str = 16, device: str | None = None, times: int = 32, seed: int = 0,
        max_batch_size: int | None = None, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        # the harness asks for the first GPU where nobody has asked for anything
        here = device is not None and (not device.startswith("cuda") or torch.cuda.is_available())
        self.model: Model = load(str(pretrained), str(device) if here else "auto")
        self.times, self.seed = int(times), int(seed)
        self.options = {name: value if name in _NUMBERS else str(value) for name, value in options.items()}
        self.batch_size = 16 if str(batch_size).startswith("auto") else int(batch_size)
        self._errors: list[float] = []

    @property
    def length(self) -> int:
        return self.model.config.length

    def loglikelihood(self, requests: list[Instance], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """log p(continuation | context), or minus its bound."""
        pairs = [self._split(*request.args) for request in requests]
        long = sum(len(context) + len(answer) > self.length for context, answer in pairs)
        if long:
            say(
                f"{long:,} of {len(pairs):,} contexts are longer than the {self.length} tokens of the model; they lose "
                "their beginnings."
            )
        found = [(-one.nats, one.greedy) for one in self._asked(pairs)]
        for request, result in zip(requests, found, strict=True):
            self.cache_hook.add_partial("loglikelihood", request.args, result)
        return found

    def loglikelihood_rolling(self, requests: list[Instance], disable_tqdm: bool = False) -> list[float]:
        """log p of whole texts, each by itself, in windows; before the last stands as much of the text as fits."""
        texts = [self._encode(request.args[0]) for request in requests]
        parts, owners = list[tuple[list[int], list[int]]](), list[int]()
        for owner, tokens in enumerate(texts):
            for start in range(0, len(tokens), self.length):
                stop = min(start + self.length, len(tokens))
                before = tokens[max(0, stop - self.length) : start]
                parts.append((before, tokens[start:stop]))
                owners.append(owner)
        totals = [0.0] * len(requests)
        for owner, one in zip(owners, self._asked(parts), strict=True):
            totals[owner] -= one.nats
        for request, total in zip(requests, totals, strict=True):
            self.cache_hook.add_partial("loglikelihood_rolling", request.args, total)
        return totals

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """Each context goes on, up to a stop string. What is not to be sampled takes the likeliest tokens."""
        groups: dict[tuple[int, str], list[int]] = defaultdict(list)
        prompts, found = dict[int, list[int]](), [""] * len(requests)
        for number, request in enumerate(requests):
            context, how = request.args
            most = min(int(how.get("max_gen_toks", _TOKENS)), max(1, self.length // 2))
            prompts[number] = self.model.tokenizer.encode(context).tolist()[-(self.length - most) :]
            size = self.length if self.model.rows else min(self.length, len(prompts[number]) + most)
            sampled = bool(how.get("do_sample", False)) and float(how.get("temperature", 1)) > 0
            groups[size, f"{how.get('temperature', 1)}" if sampled else ""].append(number)
        for (size, temperature), numbers in groups.items():
            options = self._sampling(temperature)
            templates = [self.model.opening(np.array(prompts[number], np.int64), size) for number in numbers]
            samples = self.model.sample(
                len(numbers), templates=templates, batch_size=self.batch_size, seed=self.seed, **options
            )
            for number, row in zip(numbers, samples.tolist(), strict=True):
                new = row[len(prompts[number]) + self.model.tokenizer.framed :]
                found[number] = _cut(self.model.completion(new), requests[number].args[1])
        for request, text in zip(requests, found, strict=True):
            self.cache_hook.add_partial("generate_until", request.args, text)
        return found

    def get_model_info(self) -> dict[str, Any]:
        """What the results of the harness tell of the model: how its likelihoods were made, and how sure they are."""
        exact = self.model.denoiser.method.causal
        error = math.sqrt(sum(e * e for e in self._errors) / len(self._errors)) if self._errors else None
        return {
            "candi_method": self.model.config.method,
            "candi_likelihood": "exact" if exact else f"bound, {self.times} times",
            "candi_seed": self.seed,
            "candi_standard_error_nats": error,  # of one likelihood: the root of the mean of their squares
        }

    def _asked(self, pairs: Sequence[tuple[list[int], list[int]]]) -> list[Continuation]:
        contexts, answers = [context for context, _ in pairs], [answer for _, answer in pairs]
        found = continuations(
            self.model, contexts, answers, times=self.times, batch_size=self.batch_size, seed=self.seed
        )
        self._errors += [one.error for one in found]
        return found

    def _split(self, context: str, answer: str) -> tuple[list[int], list[int]]:
        """Tokens of both. White space at the end of a context belongs to the answer, with which it is encoded."""
        kept = context.rstrip()
        whole, before = self._encode(context + answer), self._encode(kept)
        size = len(before) if whole[: len(before)] == before else next(
            place for place, (one, other) in enumerate(zip(whole, [*before, -1], strict=False)) if one != other
        )  # fmt: skip
        return whole[:size], whole[size:]

    def _encode(self, text: str) -> list[int]:
        tokens = self.model.tokenizer.encode(text).tolist()
        return [self.model.tokenizer.begin, *tokens] if self.model.tokenizer.framed else tokens

    def _sampling(self, temperature: str) -> dict[str, Any]:
        if not temperature and "temperature" not in self.options:
            return {**self.options, "top_k": 1}
        return {"temperature": float(temperature), **self.options} if temperature else dict(self.options)


def _cut(text: str, how: dict[str, Any]) -> str:
    """Up to the first of the stop strings."""
    stops = how.get("until") or []
    for stop in [stops] if isinstance(stops, str) else stops:
        text = text.split(stop)[0] if stop else text
    return text
