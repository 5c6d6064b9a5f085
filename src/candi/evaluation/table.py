"""From samples and scores to the lines of points.jsonl."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from candi.errors import UserError
from candi.evaluation.card import Point, fingerprint
from candi.evaluation.diversity import word_entropy
from candi.evaluation.measures import MEASURES, compression, plain
from candi.evaluation.molecules import molecules
from candi.evaluation.samples import Samples
from candi.evaluation.scorers import Scorer, content
from candi.evaluation.words import WordList, counted, words
from candi.files import write_text

Line = dict[str, Any]
_NEEDED = ("run", "checkpoint", "steps", "steps_fixed", "temperature", "top_k", "nucleus", "options", "seed", "n")


def measured(
    point: Point,
    samples: Samples,
    scores: Mapping[str, Mapping[str, Any]],
    known: WordList | None = None,
    mauve: Mapping[str, Any] | None = None,
    measured_property: str | None = None,
    characters: int | None = None,
) -> Line:
    """A point with its card, its measures, and the columns from which their bands are made.

    The first scorer is what perplexity means; those after it stand beside it under their names. Of each text only so
    many `characters` count, where texts of different tokenizers are to be compared.
    """
    samples = replace(samples, texts=cut(samples.texts, characters))
    columns: dict[str, Any] = {"entropy": list(samples.entropy)}
    values = {
        "entropy": MEASURES["entropy"].of(columns),
        "distinct_2": samples.distinct_2,
        "compression": compression(samples.texts),
    }
    if characters is not None:
        columns["word_entropy"] = [word_entropy(text) if text.split() else 0.0 for text in samples.texts]
        values["word_entropy"] = MEASURES["word_entropy"].of(columns)
    for index, (name, score) in enumerate(scores.items()):
        mark = f":{Path(name).name}" if index else ""
        columns |= {f"nats{mark}": score["nats"], f"tokens{mark}": score["tokens"]}
        values[f"perplexity{mark}"] = MEASURES["perplexity"].of({"nats": score["nats"], "tokens": score["tokens"]})
    if known is not None:
        valid, count = counted(samples.texts, known.known, known.letters)
        columns |= {"known_words": valid, "all_words": count}
        values |= {
            "valid_words": MEASURES["valid_words"].of(columns),
            "unique_words": words(samples.texts, known.known, known.letters).unique,
        }
    if measured_property is not None:
        found = molecules(samples.texts, [measured_property])
        valid_values = iter(found.values[measured_property])
        columns["is_molecule"] = [float(text is not None) for text in found.smiles]
        columns["property"] = [0.0 if text is None else next(valid_values) for text in found.smiles]
        values |= {name: MEASURES[name].of(columns) for name in ("property", "valid_molecules")}
        values["unique_molecules"] = float(len(found.distinct))
    identities = [score["identity"] for score in scores.values()]
    judged = {
        "scorer": identities[0] if identities else None,
        "other_scorers": identities[1:],
        "words": None if known is None else known.identity,
        "mauve": None if mauve is None else mauve["identity"],
        "property": measured_property,
        "characters": characters,
    }
    if mauve is not None:
        values["mauve"] = math.nan if mauve["mauve"] is None else mauve["mauve"]
    card = {**samples.card, "run": point.run, **judged}
    return {"key": point.key, "card": card, "measures": plain(values), "columns": columns}


def cut(texts: Sequence[str], characters: int | None) -> list[str]:
    return [text[:characters] for text in texts]


def scorer_folder(scorer: str, context: int, characters: int | None = None) -> str:
    """A folder's name for a scorer; one whose weights have changed, or who reads less, is another one."""
    name = re.sub(r"[^\w.-]+", "_", Path(scorer).name)[:40]
    what = [content(scorer) or scorer, context]
    return f"{name}-{fingerprint(what if characters is None else [*what, characters])[:8]}"


def write_scores(path: Path, record: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(record) + "\n")


def scored(scorer: Scorer, texts: Sequence[str]) -> dict[str, Any]:
    scores = scorer.score(texts)
    nats = [round(value, 4) for value in scores.nats.tolist()]
    return {"identity": scorer.identity, "nats": nats, "tokens": scores.tokens.tolist()}


def write_lines(path: Path, lines: Sequence[Line]) -> None:
    write_text(path, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))


def append_line(path: Path, line: Line) -> None:
    """For those who watch the file grow; it is written anew at the end, and when a sweep goes on."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line, ensure_ascii=False) + "\n")


def read_lines(path: Path) -> list[Line]:
    """The points of a sweep."""
    try:
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        for line in lines:
            line["key"], line["measures"], line["columns"]
            [line["card"][field] for field in _NEEDED]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} does not hold the points of a sweep ({type(error).__name__}: {error}).") from None
    return lines
