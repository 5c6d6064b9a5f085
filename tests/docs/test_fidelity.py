"""What docs/fidelity.md says: its places, settings and guards exist, and every item of the paper is on it."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
import yaml

from candi.diffusion.methods import METHODS
from candi.nets.dit import DiTSettings
from candi.training.settings import TrainSettings

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "fidelity.md").read_text(encoding="utf-8")
PRESETS = ("paper-text8", "paper-owt")
LABELS = """alg:joint-inference alg:approx-joint-inference loss-fn em-update disc_forward gaussian-ode single-coord
embed-win-rate masking-forward masking-reverse argmax-flip-rate structured-noise masking-marginals cont-time-marginal
percentile-formula percentile-inverse prev_disc_backward reverse-transition argmax-gaussian-prob score-to-expectation
embed-diffusion-cont-corrupt argmax-gaussian-prob-notonehot fig:tps fig:text8 fig:r-vs-rho fig:candi-vis
fig:exact_v_approx fig:disc-cont-noise fig:temperature-trap fig:frontier-long-nfe fig:molecule-frontier
fig:formula-validation fig:frontier-by-method fig:frontier-short-nfe fig:token-identifiability
fig:learned-embed-vs-random fig:molecular-temperature-sweep"""  # of all equations, algorithms and figures of the paper
_spans = re.compile(r"`([^`]+)`").findall


def _rows(column: str) -> list[Any]:
    """The rows of all tables that have the column, by the names of theirs, marked by their first cell."""
    found = []
    for table in re.findall(r"(?:^\|.*\n)+", PAGE, re.M):
        head, _, *body = ([cell.strip() for cell in line[1:-1].split("|")] for line in table.splitlines())
        found += [dict(zip(head, cells, strict=True)) for cells in body if column in head]
    return [pytest.param(row, id=next(iter(row.values()))) for row in found]


@cache
def _names(path: str) -> dict[str, Any]:
    """What stands in a file under which name, and below that in classes, dictionaries and settings."""
    text = (ROOT / path).read_text(encoding="utf-8")
    return yaml.safe_load(text) if path.endswith(".yaml") else _below(ast.parse(text))


def _below(node: ast.AST | None) -> dict[str, Any]:
    keys = node.keys if isinstance(node, ast.Dict) else []
    found: dict[str, Any] = {key.value: {} for key in keys if isinstance(key, ast.Constant)}
    for one in node.body if isinstance(node, ast.Module | ast.ClassDef) else []:
        if isinstance(one, ast.FunctionDef | ast.ClassDef):
            found[one.name] = _below(one)
        elif isinstance(one, ast.Assign | ast.AnnAssign):
            found[ast.unparse(one.targets[0] if isinstance(one, ast.Assign) else one.target)] = _below(one.value)
    return found


def _at(names: Any, key: str) -> Any:
    for part in key.split("."):
        names = names[part] if isinstance(names, dict) and part in names else None
    return names


@pytest.mark.parametrize("row", _rows("guarded by"))
def test_items_are_where_the_page_says_and_guarded(row):
    status, guards, path = row["status"].strip("`"), _spans(row["guarded by"]), ""
    assert status in ("to the letter", "both", "ours", "missing")
    assert guards or status not in ("to the letter", "both"), "what is called the paper's has no guard"
    assert (row["here"] == "—") == (status == "missing"), "what is missing has no place, all else has one"
    flags = [flag for span in _spans(row["why"]) for flag in re.findall(r"--([\w.-]+)(?: ([\w./:-]+))?", span)]
    assert flags or status != "both", "no flag is named that gives the paper's form"
    for flag, value in flags:  # that there are such flags is tested for all pages
        group, _, field = flag.replace("-", "_").rpartition(".")
        kind = get_type_hints(DiTSettings if group == "model" else METHODS[group])[field] if group else None
        assert get_origin(kind) is not Literal or value in get_args(kind), f"--{flag} {value}"
        assert flag != "preset" or value in PRESETS, value
    for span in _spans(row["here"]):
        path = span if "/" in span else path
        assert (ROOT / path).is_file(), path
        assert "/" in span or _at(_names(path), span) is not None, f"{span} is not in {path}"
    for guard in guards:
        assert re.split("::|\\[", guard)[1] in _names(guard.partition("::")[0]), guard


@pytest.mark.parametrize("row", _rows("key"))
def test_values_are_those_of_the_files(row):
    for path in (_spans(column)[0] for column in row if "/" in column):
        defaults = TrainSettings(data="", out=Path()).defaults() if "presets" in path else {}
        held = _at(_names(path), row["key"])
        assert (_at(defaults, row["key"]) if held is None else held) == yaml.safe_load(row[f"`{path}`"]), path


def test_nothing_is_left_out():
    cells = " ".join(row.values[0]["in the paper"] for row in _rows("guarded by"))
    assert {span.removeprefix("eq:") for span in re.findall("`((?:eq|alg|fig):[^`]+)`", cells)} == set(LABELS.split())
    assert all((ROOT / path).exists() for path in re.findall(r"`([\w.-]+(?:/[\w.-]+)+)`", PAGE))
    keys = {row.values[0]["key"] for row in _rows("key")}
    for name in PRESETS:
        held = _names(f"src/candi/presets/{name}.yaml").items()
        inner = {key: [f"{key}.{one}" for one in value] for key, value in held if isinstance(value, dict)}
        assert keys >= {one for key, _ in held for one in inner.get(key, [key])}
