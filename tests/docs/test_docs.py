"""What the documents show works."""

import ast
import io
import json
import re
from contextlib import redirect_stdout, suppress
from functools import cache
from pathlib import Path

import pytest

from candi.cli import PROGRAM, main
from candi.diffusion.methods import METHODS
from candi.evaluation.points import read_points
from candi.hub.shipped import shipped

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
LIBRARY = ROOT / "src" / "candi"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.glob("*.md"))]
_FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.S | re.M)
pytestmark = pytest.mark.usefixtures("cache")


def _page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def _blocks(name: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", _page(name), re.S)


def test_the_guide_s_whole_tour_in_python(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    tour = _blocks("guide.md")[0]
    assert len(tour.splitlines()) <= 40
    names: dict = {}
    exec(tour, names)
    prompted, filled, *states, bits, guided = capsys.readouterr().out.splitlines()
    assert all(text.startswith("The ") for text in ast.literal_eval(prompted))
    assert re.fullmatch(r"\['The .{4} is a .{4}\.'\]", filled)
    assert names["tokens"].shape == (2, 24)
    times, known, predicted = zip(*(line.split() for line in states), strict=True)
    assert [float(t) for t in times] == [1, 0.75, 0.5, 0.25, 0]
    assert [float(share) for share in known] == sorted(map(float, known))
    assert float(known[-1]) == 1
    assert predicted[-1] == "False"
    assert 3 < float(bits) < 6.5  # log2 of 103 characters is 6.7
    assert guided.startswith("[")
    assert (tmp_path / "my-model" / "config.json").exists()


def test_the_guide_s_samples_of_the_exact_posterior(capsys):
    exec(_blocks("guide.md")[-1], {})
    share = float(re.search(r"[\d.]+", capsys.readouterr().out.removeprefix("tensor("))[0])
    assert abs(share - 0.5) < 0.08  # 1,000 samples: a standard error of 0.016, and little noise is left out


def test_the_method_of_one_s_own_is_exact(monkeypatch):
    method, proof = _blocks("add-a-method.md")
    assert 30 < len([line for line in method.splitlines() if line.strip()]) < 60
    _forget_afterwards(monkeypatch)
    exec(method + proof, {"__name__": "cosine"})


def test_the_method_of_one_s_own_trains_samples_and_is_evaluated(tmp_path, monkeypatch, capsys):
    (tmp_path / "cosine.py").write_text(_blocks("add-a-method.md")[0])
    plugin, run = f"--plugin={tmp_path}/cosine.py", str(tmp_path / "run")
    small = ["--preset=tiny", "--data=pydoc", "--steps=60", "--validate-every=20", "--sample-every=0"]
    _forget_afterwards(monkeypatch)

    def command(*arguments: str) -> str:
        METHODS.pop("cosine", None)  # a process of its own would not know it either
        capsys.readouterr()
        main([*arguments, plugin])
        return capsys.readouterr().out

    command("train", "--method=cosine", *small, f"--out={run}")
    rows = (tmp_path / "run" / "metrics.csv").read_text().splitlines()
    valid = [float(row.split(",")[2]) for row in rows[1:] if row.split(",")[2]]
    assert valid[-1] < valid[0]
    assert command("sample", run, "--steps=4", "--prompt=The ").startswith("The ")
    printed = command("evaluate", run, "--data=pydoc", "--sequences=64")
    assert 3 < float(re.search(r"at most ([\d.]+) bits per token", printed)[1]) < 9


def _forget_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Undo what a plugin leaves behind in this process."""
    monkeypatch.setenv("CANDI_PLUGINS", "")
    monkeypatch.setitem(METHODS, "cosine", None)
    METHODS.pop("cosine")


def test_links_between_documents_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", _FENCED.sub("", page.read_text(encoding="utf-8"))):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@cache
def _help(program: str, *command: str) -> str:
    from candi_lab.cli import main as lab

    printed = io.StringIO()
    with redirect_stdout(printed), suppress(SystemExit):
        (main if program == "candi" else lab)([*command, "--help"])
    return printed.getvalue()


_OPTION = re.compile(r"(?<![\w-])--[a-z][\w.-]*")
_PLUGIN = {"--plugin", "--cosine.speed"}  # of the program, and of the plugin of add-a-method.md
_PIP = {"--no-deps"}
_TORCHRUN = {"--nnodes", "--nproc-per-node", "--max-restarts"}


def _commands(blocks: list[str], spans: list[str]) -> list[list[str]]:
    """The commands of a page, without comments."""
    lines = [line.partition(" #")[0] for block in blocks for line in block.splitlines()] + spans
    return [line.split() for line in lines if re.match(r"candi(-lab)? [a-z]", line)]


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=lambda page: page.name)
def test_every_option_of_a_page_exists(page):
    text = page.read_text(encoding="utf-8")
    blocks = [block for kind, block in _FENCED.findall(text) if kind in ("", "sh")]
    spans = re.findall(r"`([^`]+)`", _FENCED.sub("", text))
    every = _PLUGIN | _PIP | _TORCHRUN
    for program, name, *rest in _commands(blocks, spans):
        nested = program == "candi-lab" and name in ("bench", "figures") and rest
        command = (name, re.split(r"\W", rest[0])[0]) if nested else (name,)
        known = set(_OPTION.findall(_help(program, *command)))
        assert _help(program, *command), f"there is no command {program} {' '.join(command)}"
        used = {option for word in rest for option in _OPTION.findall(word)}
        assert used <= known | _PLUGIN, f"{program} {name} has no {used - known - _PLUGIN}"
        every |= known
    every |= {option for name in PROGRAM.commands for option in _OPTION.findall(_help("candi", name))}
    every |= set(_OPTION.findall(_help("candi-lab", "reproduce")))
    mentioned = {option for span in spans for option in _OPTION.findall(span)}
    assert mentioned <= every, f"no command has {mentioned - every}"


def test_every_place_of_the_glossary_exists():
    rows = [re.split(r" (?<!\\)\| ", row.strip("| ")) for row in _page("glossary.md").splitlines() if row[:2] == "| "]
    words = [row[0] for row in rows[1:]]
    assert words == sorted(words, key=str.lower)
    for word, _, place in rows[1:]:
        *symbol, path = re.findall(r"`([^`]+)`", place)
        file = (ROOT if path.startswith("lab/") else LIBRARY) / path
        assert file.exists(), f"{word}: {path}"
        for part in symbol[0].split(".") if symbol else ():
            found = rf"(class|def) {part}\b|^\s*(self\.)?{part}\b.*[:=]"
            assert re.search(found, file.read_text(encoding="utf-8"), re.M), f"{word}: {part} in {path}"


def test_every_file_that_the_page_on_the_method_names_exists():
    for path in re.findall(r"`([\w/]+\.py)`", _page("method.md")):
        assert any((folder / path).exists() for folder in (LIBRARY / "diffusion", ROOT)), path


def test_the_functions_of_the_page_on_identifiability():
    names: dict = {}
    exec(_blocks("identifiability.md")[0], names)  # our own page
    for name in re.findall(r"`(\w+)`", re.search(r"\| function.*?\n\n", _page("identifiability.md"), re.S)[0]):
        assert hasattr(names["ident"], name), name


@pytest.mark.parametrize("rule", ["rings", "qed"])
def test_the_points_behind_the_figures_of_molecules_rise_with_the_weight(rule):
    """What docs/molecules.md says of the model that ships, in the file that `make molecules` wrote, and in its card."""
    points = read_points(DOCS / "figures" / f"qm9-{rule}.jsonl")
    weights = [point.cell.guidance.weight for point in points]
    means = [point.measures["property"] for point in points]
    assert weights == sorted(weights)
    assert len(weights) >= 4
    assert means == sorted(means)
    assert {point.provenance.property for point in points} == {rule}
    assert {point.cell.n for point in points} == {512}
    card = json.loads((shipped()["qm9"] / "card.json").read_text(encoding="utf-8"))
    assert {point.cell.checkpoint for point in points} == {card["sha256"]}
    listed = {row["weight"]: row[f"mean_{rule}"] for row in card["measures"] if row["guided"] == f"{rule}:top"}
    assert listed == dict(zip(weights, (round(mean, 4) for mean in means), strict=True))
