"""Labels and guidance of what is no molecule: peptides of two families, and lines of text with a mood."""

import contextlib
import csv
import dataclasses
import json
import math
import random
import re

import numpy as np
import pytest

from candi.base.labels import Label, class_numbers
from candi.cli import main
from candi.cli.frontier import _unit
from candi.data.properties import properties
from candi.evaluation.compare import Axes
from candi.evaluation.points import read_points
from candi.evaluation.provenance import Guide
from candi.evaluation.samples import make
from candi.evaluation.sequences import measured
from candi.hub.loading import load, run_handle
from candi.views.sequences import Drawn, write_page
from tests.training.runs import train_here

SHAPE = {"length": 12, "batch_size": 64, "steps": 300, "checkpoint_every": 300, "learning_rate": 3e-3, "warmup": 20,
         "model.width": 48}  # fmt: skip
FAST = ["--steps", "8", "--device", "cpu"]


@pytest.fixture(scope="module")
def place(tmp_path_factory, cache):
    """Peptides of two families, of which one has more K and R, with a charge of their own; texts in two moods."""
    folder, random_ = tmp_path_factory.mktemp("sequences"), random.Random(0)
    peptides = open(folder / "peptides.fasta", "w")  # noqa: SIM115
    for number in range(600):
        family = ("acid", "base")[number % 2]
        letters = "".join(random_.choices("DEAG" if family == "acid" else "KRAG", k=random_.randint(6, 10)))
        peptides.write(f">p{number} family={family} batch={number % 3}\n{letters}\n")
    peptides.close()
    with open(folder / "moods.jsonl", "w") as file:
        for number in range(600):
            mood = ("dull", "glad")[number % 2]
            words = random_.choices(
                ["ha", "yo", "so"] if mood == "glad" else ["oh", "no", "so"], k=random_.randint(2, 4)
            )
            file.write(json.dumps({"text": " ".join(words), "mood": mood}) + "\n")
    train_here(folder / "labelled", data=folder / "peptides.fasta", tokenizer="protein", rows=True,
               label="family,charge>=3", **SHAPE)  # fmt: skip
    train_here(folder / "moods", data=folder / "moods.jsonl", tokenizer="char", rows=True, **SHAPE)
    train = ["train-classifier", str(folder / "moods"), "--data", str(folder / "moods.jsonl"), "--label", "mood",
             "--steps", "150", "--model.width", "32", "--model.heads", "2", "--device", "cpu"]  # fmt: skip
    main([*train, "--out", str(folder / "glad")])
    main([*train, "--kind", "bag", "--seed", "1", "--out", str(folder / "judge")])
    return folder


def _charges(capsys, place, label: str, *more: str) -> list[float]:
    main(["sample", str(place / "labelled"), "--n", "48", "--label", label, *FAST, *more])
    samples = [line for line in capsys.readouterr().out.splitlines() if line]
    return properties(samples, "charge", "protein").tolist()


def test_a_class_is_asked_for_by_name(place, capsys):
    """Those of the family of acids have no positive residue, the others no negative one."""
    acid, base = (_charges(capsys, place, f"family={name}", "--cfg-weight", "1") for name in ("acid", "base"))
    assert sum(charge < 0 for charge in acid) >= 40
    assert sum(charge > 0 for charge in base) >= 40


def test_several_labels_are_asked_for_together(place, capsys):
    """Among the bases about half have a charge of 3 or more."""
    low, high = (
        _charges(capsys, place, f"family=base,charge={more}", "--cfg-weight", "1") for more in ("no", "yes")
    )  # fmt: skip
    assert min(sum(charge > 0 for charge in some) for some in (low, high)) >= 36
    assert sum(high) / 48 > sum(low) / 48 + 1


def test_a_run_keeps_the_names_of_its_classes(place, capsys):
    config = json.loads(next((place / "labelled").rglob("config.json")).read_text())
    assert config["labels"] == {"family": ["acid", "base"], "charge>=3": ["no", "yes"]}
    with pytest.raises(SystemExit) as exit:
        main(["sample", str(place / "labelled"), "--label", "family=salt"])
    assert exit.value.code == 2
    assert "family has no label salt; it has 0 (acid), 1 (base)." in capsys.readouterr().err


def test_a_classifier_of_text_says_how_well_it_does(place):
    quality = json.loads((place / "glad" / "quality.json").read_text())
    assert quality["area"] > 0.95
    assert quality["accuracy"] > 0.9
    assert 0.4 < quality["commonest"] < 0.7


def test_text_is_guided_and_measured_as_text(place, tmp_path, capsys):
    """Neither validity nor qed is spoken of; another classifier says how well it worked."""
    shares = {}
    for mood in ("dull", "glad"):
        main(["guide", str(place / "moods"), "--classifier", str(place / "glad"), "--judge", str(place / "judge"),
              "--target", mood, "--weight", "8", "--n", "48", "--out", str(tmp_path / mood), *FAST])  # fmt: skip
        said = capsys.readouterr().err
        assert f"mood {mood} by the judge" in said
        assert "mean words" in said
        assert "valid" not in said
        assert "qed" not in said
        rows = list(csv.DictReader((tmp_path / mood / "samples.csv").open()))
        assert list(rows[0]) == ["sample", "novel", "length", "words", "liked", "judged"]
        happy = ("ha", "yo")
        shares[mood] = sum(any(word in row["sample"] for word in happy) for row in rows) / len(rows)
        page = (tmp_path / mood / "samples.html").read_text()
        assert "Samples of" in page
        assert rows[0]["sample"] in page
        assert "data:image" not in page
    assert shares["glad"] > shares["dull"] + 0.3


def test_a_swept_class_may_be_called_by_another_number(place, tmp_path, monkeypatch):
    """Class 0 is called 1, class 1 is called 0: what is asked for by name is what is sampled."""
    asked = []
    handle = run_handle(str(place / "labelled"))
    config = dataclasses.replace(handle.config, labels=(Label("family", ("1", "0")),))
    cell = next(handle.cells([2], [1.0], {}, top_k=None, top_p=None, length=None, seed=0, n=2, precision="float32",
                             guides=[Guide(None, "family", class_numbers(config.labels, "0")[0], 1.0)]))  # fmt: skip
    model = load(place / "labelled", "cpu")
    monkeypatch.setattr(model, "config", config)
    monkeypatch.setattr(model, "trajectory", lambda *_, label, **__: asked.append(label) or iter(()))
    with contextlib.suppress(UnboundLocalError):  # nothing is sampled
        make(model, cell, 2)
    assert class_numbers(config.labels, asked[0]) == [1]


def test_properties_of_thousands_are_compared(place, tmp_path):
    """Their weights are some hundreds; a unit keeps exponentials finite."""
    out = tmp_path / "heavy"
    main(["frontier", str(place / "labelled"), "--property", "weight", "--label", "family=base", "--weights", "0,2",
          "--steps", "4", "--temperatures", "1", "--n", "16", "--device", "cpu", "--out", str(out)])  # fmt: skip
    points = read_points(out / "points.jsonl")
    heavy = [dataclasses.replace(p, measures=p.measures | {"property": 9 * p.measures["property"]}) for p in points]
    unit = _unit(heavy)
    assert unit > 20
    axes = Axes("unique_sequences", "property", unit=unit)
    values = np.array([p.measures["property"] for p in heavy])
    assert np.allclose(axes.quality_of(axes.cost(values)), values)
    assert "nan" not in (out / "frontier.md").read_text()


def test_what_has_no_property_leaves_the_page_whole(tmp_path):
    """The share of G and C in nothing but N is no number."""
    found = measured(["GGNN", "NNN"], ["gc"], kind="dna")
    assert (found.mean("gc"), found.hit("gc", 0.5)) == (1.0, 1.0)
    drawn = [Drawn(text, {"gc": value}, None) for text, value in zip(found.texts, found.values["gc"], strict=True)]
    write_page(tmp_path / "page.html", "t", {}, drawn, found.values, {"gc": [0.5, math.nan]}, molecules=False)
    page = (tmp_path / "page.html").read_text()
    data = json.loads(
        re.search(r'id="data">(.*?)</script>', page, re.S)[1].replace("\\u003c", "<"), parse_constant=pytest.fail
    )
    assert [one["values"]["gc"] for one in data["sequences"]] == [1.0, None]
    assert data["histograms"]["gc"]["mean"] == 1.0


def test_peptides_are_swept_by_their_charge(place, tmp_path):
    out = tmp_path / "sweep"
    main(["frontier", str(place / "labelled"), "--property", "charge", "--label", "family=base", "--weights", "0,2",
          "--steps", "6", "--temperatures", "1", "--n", "32", "--device", "cpu", "--out", str(out)])  # fmt: skip
    points = read_points(out / "points.jsonl")
    assert [point.cell.guidance.target for point in points] == ["family=base"] * 2
    assert all(point.measures["property"] > 1 for point in points)
    assert all(point.measures["unique_sequences"] > 10 for point in points)
    assert "Mean charge of the sequences" in (out / "frontier.md").read_text()


def test_a_classifier_of_classes_is_packed_with_their_names(place, tmp_path):
    main(["export", str(place / "moods"), "--out", str(tmp_path / "packed"), "--classifiers", f"mood={place / 'glad'}"])
    assert "mood: dull, glad" in (tmp_path / "packed" / "README.md").read_text()
    main(["guide", str(tmp_path / "packed"), "--classifier", "mood", "--target", "glad", "--n", "4", "--out",
          str(tmp_path / "guided"), *FAST])  # fmt: skip
    assert (tmp_path / "guided" / "samples.csv").exists()


def test_a_judge_knows_the_same_classes(place, tmp_path, capsys):
    main(["train-classifier", str(place / "moods"), "--data", str(place / "moods.jsonl"), "--label", "words>=3",
          "--steps", "2", "--model.width", "32", "--out", str(tmp_path / "long"), "--device", "cpu"])  # fmt: skip
    for wrong, complaint in (
        (["--judge", str(tmp_path / "long")], "tells words>=3 apart, not mood"),
        (["--property", "charge"], "no property 'charge'; choose one of: length, words"),
    ):
        with pytest.raises(SystemExit) as exit:
            main(
                [
                    "guide",
                    str(place / "moods"),
                    "--classifier",
                    str(place / "glad"),
                    "--out",
                    str(tmp_path / "x"),
                    *wrong,
                ]
            )
        assert exit.value.code == 2
        assert complaint in capsys.readouterr().err
