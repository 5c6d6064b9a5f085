"""From samples and scores to measured points, and their file."""

import gzip
import json
import lzma
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from candi.base.errors import UserError
from candi.base.files import need_file, write_bytes, write_text
from candi.data.properties import Kind
from candi.evaluation.diversity import word_entropy
from candi.evaluation.measures import MEASURES, POOLED_WORDS, compression, plain
from candi.evaluation.provenance import Cell, Provenance, fingerprint
from candi.evaluation.samples import Samples
from candi.evaluation.scorers import Scorer, content
from candi.evaluation.sequences import measured
from candi.evaluation.words import WordList, count_words

POINTS = "points.jsonl"  # the file of a sweep


@dataclass(frozen=True)
class Point:
    """A cell that was sampled and measured. `columns` hold a number for each sample: bands are made from them."""

    provenance: Provenance
    measures: Mapping[str, float | None]
    columns: Mapping[str, Sequence[float]]

    @property
    def cell(self) -> Cell:
        return self.provenance.cell

    @property
    def key(self) -> str:
        return self.cell.key

    def to_json(self) -> dict[str, Any]:
        made = self.provenance.to_json()
        return {"key": self.key, "provenance": made, "measures": self.measures, "columns": self.columns}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Point":
        made = values["provenance"] if "provenance" in values else values["card"]  # as 0.1 called it
        measures = dict(values["measures"])
        if "known_words" in values["columns"] and "unique_words" not in values["columns"]:  # 0.1: of all samples
            measures[POOLED_WORDS] = measures.pop("unique_words", None)
        return cls(Provenance.from_json(made), measures, values["columns"])


@dataclass(frozen=True)
class Scored:
    """What a scorer said of the samples of a point."""

    identity: Mapping[str, Any]
    nats: Sequence[float]
    tokens: Sequence[int]

    @classmethod
    def by(cls, scorer: Scorer, texts: Sequence[str]) -> "Scored":
        scores = scorer.score(texts)
        return cls(scorer.identity, [round(value, 4) for value in scores.nats.tolist()], scores.tokens.tolist())


def measure_point(
    samples: Samples,
    scores: Mapping[str, Scored],
    known: WordList | None = None,
    mauve: Mapping[str, Any] | None = None,
    measured_property: str | None = None,
    kind: Kind = "molecules",
    characters: int | None = None,
    run: str | None = None,
) -> Point:
    """The measures of samples, and the columns from which their bands are made.

    The first scorer is what perplexity means; those after it stand beside it under their names. Of each text only so
    many `characters` count, where texts of different tokenizers are compared. `run` is the run's name today.
    """
    texts = cut(samples.texts, characters)
    columns: dict[str, Any] = {"entropy": list(samples.entropy)}
    values = {
        "entropy": MEASURES["entropy"].of(columns),
        "distinct_2": samples.distinct_2,
        "compression": compression(texts),
    }
    if characters is not None:
        columns["word_entropy"] = [word_entropy(text) if text.split() else 0.0 for text in texts]
        values["word_entropy"] = MEASURES["word_entropy"].of(columns)
    for index, (name, score) in enumerate(scores.items()):
        mark = f":{Path(name).name}" if index else ""
        columns |= {f"nats{mark}": score.nats, f"tokens{mark}": score.tokens}
        values[f"perplexity{mark}"] = MEASURES["perplexity"].of({"nats": score.nats, "tokens": score.tokens})
    if known is not None:
        counted = count_words(texts, known.known, known.letters)
        unique = [round(share, 6) for share in counted.unique]
        columns |= {"known_words": counted.known, "all_words": counted.all, "unique_words": unique}
        values |= {name: MEASURES[name].of(columns) for name in ("valid_words", "unique_words")}
    if measured_property is not None:
        found = measured(texts, [measured_property], kind=kind)
        valid_values = iter(found.values[measured_property])
        known_values = [math.nan if text is None else next(valid_values) for text in found.texts]
        columns["is_molecule"] = [float(math.isfinite(value)) for value in known_values]
        columns["property"] = [value if math.isfinite(value) else 0.0 for value in known_values]
        values["property"] = MEASURES["property"].of(columns)
        if kind == "molecules":
            values["valid_molecules"] = MEASURES["valid_molecules"].of(columns)
        values["unique_molecules" if kind == "molecules" else "unique_sequences"] = float(len(found.distinct))
    if mauve is not None:
        values["mauve"] = math.nan if mauve["mauve"] is None else mauve["mauve"]
    identities = [score.identity for score in scores.values()]
    made = replace(
        samples.provenance,
        cell=replace(samples.provenance.cell, run=run or samples.provenance.cell.run),
        scorer=identities[0] if identities else None,
        other_scorers=identities[1:],
        words=None if known is None else known.identity,
        mauve=None if mauve is None else mauve["identity"],
        property=measured_property,
        kind=None if measured_property is None or kind == "molecules" else kind,
        characters=characters,
    )
    return Point(made, plain(values), columns)


def cut(texts: Sequence[str], characters: int | None) -> list[str]:
    return [text[:characters] for text in texts]


def scorer_folder(scorer: str, context: int, characters: int | None = None) -> str:
    """A folder's name for a scorer; one whose weights have changed, or that reads less, is another one."""
    name = re.sub(r"[^\w.-]+", "_", Path(scorer).name)[:40]
    what = [content(scorer) or scorer, context]
    return f"{name}-{fingerprint(what if characters is None else [*what, characters])[:8]}"


def write_scores(path: Path, record: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(record) + "\n")


def write_points(path: Path, points: Sequence[Point]) -> None:
    """A line of JSON for each; compressed if the name ends in .gz or .xz. The same points give the same file."""
    data = "".join(json.dumps(point.to_json(), ensure_ascii=False) + "\n" for point in points).encode()
    if path.suffix == ".gz":
        data = gzip.compress(data, 9, mtime=0)
    elif path.suffix == ".xz":
        data = lzma.compress(data, preset=9)
    write_bytes(path, data)


def append_point(path: Path, point: Point) -> None:
    """For those who watch the file grow; it is written anew at the end, and when a sweep goes on."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(point.to_json(), ensure_ascii=False) + "\n")


def read_points(path: Path) -> list[Point]:
    """The points of a sweep."""
    need_file(path)
    try:
        unpack = {".gz": gzip.decompress, ".xz": lzma.decompress}.get(path.suffix, bytes)
        text = unpack(path.read_bytes()).decode("utf-8")
        return [Point.from_json(json.loads(line)) for line in text.splitlines()]
    except (OSError, EOFError, lzma.LZMAError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(f"{path} does not hold the points of a sweep ({type(error).__name__}: {error}).") from None
