"""From molecules in a file to a guided generator, at toy size."""

import csv
import json
import shutil

import numpy as np
import pytest
import torch

from candi.base.errors import UserError
from candi.base.files import sha256
from candi.cli import evaluate, frontier, main
from candi.data.corpus import Corpus
from candi.diffusion.guidance import guide_for
from candi.evaluation.compare import options_of
from candi.evaluation.points import read_points
from candi.evaluation.sequences import measured
from candi.evaluation.sweep import Sweep
from candi.evaluation.sweep_settings import SweepSettings
from candi.evaluation.wordfilter import WordFilter
from candi.hub.loading import load, run_handle
from candi.model.classifiers import check_classifier, load_classifier
from candi.views.sequences import Drawn, write_page
from tests.browser import PHONE, browser, opened  # noqa: F401 - a fixture
from tests.training.runs import flags, train_here

pytest.importorskip("rdkit")
pytestmark = pytest.mark.usefixtures("cache")


def _written(folder):
    """Chains and rings of carbon, nitrogen and oxygen, of one to eight atoms."""
    random = np.random.default_rng(0)
    chains = ["".join(random.choice(list("CCNO"), size)) for size in random.integers(1, 8, 150)]
    rings = ["C1" + "".join(random.choice(list("CCN"), size)) + "C1" for size in random.integers(1, 6, 150)]
    path = folder / "some.smi"
    path.write_text("\n".join(chains + rings) + "\n")
    return path


@pytest.fixture(scope="module")
def place(tmp_path_factory, cache):
    """Runs of three methods, one of them by label, and a classifier for each kind of guidance."""
    folder = tmp_path_factory.mktemp("molecules")
    data = _written(folder)
    shape = {"data": data, "tokenizer": "smiles", "length": 12, "batch_size": 32, "steps": 250, "checkpoint_every": 250,
             "model__width": 32, "model__convolution": 3, "learning_rate": 5e-3, "ema": 0.98}  # fmt: skip
    train_here(folder / "candi", method="candi", label="rings>=1", **shape)
    train_here(folder / "mdlm", method="mdlm", **shape)
    base = ["--data", str(data), "--label", "rings>=1", "--steps", "60", "--model.width", "32", "--model.blocks", "1",
            "--device", "cpu"]  # fmt: skip
    main(["train-classifier", str(folder / "candi"), *base, "--out", str(folder / "clean")])
    main(["train-classifier", str(folder / "mdlm"), *base, "--out", str(folder / "noisy"), "--noisy", "true"])
    return folder


def _rings(place, *flags, run="candi", out="out"):
    main(
        ["guide", str(place / run), "--n", "128", "--steps", "12", "--device", "cpu", "--out", str(place / out), *flags]
    )
    table = list(csv.DictReader((place / out / "molecules.csv").open()))
    return [float(row["rings"]) for row in table if row["smiles"]]


def test_a_clean_classifier_steers_and_its_results_are_whole(place, capsys):
    clean = ["--classifier", str(place / "clean")]
    means = [np.mean(_rings(place, *clean, "--weight", str(weight))) for weight in (0, 30)]
    assert means[1] > means[0] + 0.08  # the standard error of a difference is about 0.05
    told = capsys.readouterr()
    assert "rings of at least 1" in told.err
    table = list(csv.DictReader((place / "out" / "molecules.csv").open()))
    assert len(table) == 128
    distinct = {row["smiles"] for row in table if row["smiles"]}
    assert (place / "out" / "molecules.sdf").read_text().count("$$$$") == len(distinct)
    assert {row["novel"] for row in table if row["smiles"]} <= {"true", "false"}
    liked = {kind: [float(row["liked"]) for row in table if row["smiles"] and (float(row["rings"]) > 0) is kind]
             for kind in (False, True)}  # fmt: skip
    assert np.mean(liked[True]) > 0.6 > 0.4 > np.mean(liked[False])  # the classifier's opinion of what was made


def test_a_packed_classifier_guides_by_the_name_of_its_property(place, tmp_path, capsys):
    """Weights in half the bytes, the same steering."""
    packed = tmp_path / "mols"
    classifier = f"rings={place / 'clean'}"
    main(
        [
            "export",
            str(place / "candi"),
            "--out",
            str(packed),
            "--classifiers",
            classifier,
            "--steps",
            "12",
            "--temperature",
            "0.9",
        ]
    )
    size = (packed / "classifiers" / "rings" / "model.safetensors").stat().st_size
    whole = load_classifier(str(place / "clean"), torch.device("cpu"))[0]
    assert size < 2.2 * sum(parameter.numel() for parameter in whole.parameters()) + 5000
    out = ["--n", "32", "--device", "cpu", "--out", str(tmp_path / "out")]
    main(["guide", str(packed), "--classifier", "rings", "--weight", "30", *out])
    assert "12 steps" in (tmp_path / "out" / "molecules.html").read_text()  # as recommended
    for wrong, complaint in ((["--classifier", "qed"], "no classifier 'qed'"), ([], "Say by what to guide")):
        with pytest.raises(SystemExit):
            main(["guide", str(packed), *wrong, *out])
        assert complaint in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["guide", str(place / "mdlm"), "--classifier", "rings", *out])
    assert "no classifier at 'rings'" in capsys.readouterr().err


def test_a_packed_model_says_what_is_new_if_it_was_told_what_is_not(place, tmp_path, capsys):
    record = json.loads((place / "candi" / "run.json").read_text())
    packed, again = tmp_path / "mols", tmp_path / "again"
    pack = ["export", str(place / "candi"), "--out", str(packed), "--classifiers", f"rings={place / 'clean'}"]
    main([*pack, "--molecules", record["settings"]["data"]])
    main(["export", str(packed), "--out", str(again)])  # it goes with the model
    guided = ["--classifier", str(place / "clean"), "--n", "32", "--seed", "3", "--device", "cpu", "--steps", "8",
              "--temperature", "0.8"]  # fmt: skip
    main(["guide", str(again), *guided, "--out", str(tmp_path / "out")])
    known = WordFilter.read(again / "molecules.bloom")
    rows = [row for row in csv.DictReader((tmp_path / "out" / "molecules.csv").open()) if row["smiles"]]
    assert [row["novel"] for row in rows] == ["false" if row["smiles"] in known else "true" for row in rows]
    assert "spelled by" not in capsys.readouterr().err
    assert f"It knows {len(known)} molecules, as RDKit " in (again / "README.md").read_text()
    WordFilter.of(["C"], speller="RDKit 1").write(again / "molecules.bloom")
    main(["guide", str(again), *guided, "--out", str(tmp_path / "out")])
    assert "spelled by RDKit 1, here is RDKit 2" in capsys.readouterr().err
    (tmp_path / "none.smi").write_text("(\n")
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main([*pack, "--molecules", str(tmp_path / "none.smi")])
    assert "holds no molecules; give --molecules a file that does" in capsys.readouterr().err
    assert (packed / "molecules.bloom").exists()


def test_the_card_tells_of_classifiers_and_of_what_guidance_does(place, tmp_path):
    packed, again = tmp_path / "mols", tmp_path / "again" / "mols"
    main(["export", str(place / "candi"), "--out", str(packed), "--classifiers", f"rings={place / 'clean'}"])
    classifier = packed / "classifiers" / "rings"
    main(["frontier", str(packed), "--out", str(tmp_path / "sweep"), "--property", "rings", "--steps", "8",
          "--temperatures", "0.8", "--classifiers", "rings", "--weights", "0,8", "--n", "16",
          "--device", "cpu"])  # fmt: skip
    file = tmp_path / "sweep" / "points.jsonl"
    main(["export", str(packed), "--out", str(again), "--points", f"{file},{file}"])
    card = json.loads((again / "card.json").read_text())
    told = card["classifiers"]["rings"]
    assert told["sha256"] == sha256(classifier / "model.safetensors")
    assert told["area"] > 0.9  # rings are easily told from chains
    assert (told["label"], told["threshold"], told["kind"]) == ("rings>=1", 1.0, "transformer")
    rows = card["measures"]
    assert [row["weight"] for row in rows] == [0, 8, 0, 8]  # of both files
    points = read_points(file)
    assert [row["mean_rings"] for row in rows[:2]] == [round(point.measures["property"], 4) for point in points]
    page = (again / "README.md").read_text()
    assert f"| {told['area']:.3f} |" in page
    assert f"| {rows[1]['mean_rings']} |" in page


def test_discrete_guidance_steers_too(place):
    noisy = ["--classifier", str(place / "noisy")]
    means = [np.mean(_rings(place, *noisy, "--weight", str(weight), run="mdlm")) for weight in (0, 3)]
    exact = _rings(place, *noisy, "--weight", "3", "--dcbg", "exact", "--n", "16", run="mdlm")
    assert means[1] > means[0] + 0.06
    assert np.mean(exact) > means[0]


def test_a_run_that_knows_labels_steers_itself(place):
    means = [np.mean(_rings(place, "--label", label, "--cfg-weight", w)) for label, w in (("0", "1"), ("1", "1"))]
    assert means[1] > means[0] + 0.3


def test_a_molecule_grows_from_a_scaffold(place):
    _rings(place, "--classifier", str(place / "clean"), "--prompt", "C1C", "--n", "8")
    table = list(csv.DictReader((place / "out" / "molecules.csv").open()))
    assert all(row["sample"].startswith("C1C") for row in table)
    _rings(place, "--classifier", str(place / "clean"), "--infill", "C1__C1", "--n", "8")
    table = list(csv.DictReader((place / "out" / "molecules.csv").open()))
    assert all(row["sample"].startswith("C1") for row in table)


def test_any_function_of_one_hot_inputs_is_a_classifier(place):
    """A logistic regression on a bag of tokens that likes oxygen."""
    model = load(place / "candi", "cpu")
    oxygen = int(model.tokenizer.encode("O")[0])
    likes = lambda x, t: torch.nn.functional.logsigmoid(4 * x[..., oxygen].sum(-1) - 2)  # noqa: E731
    shares = []
    for weight in (0.0, 4.0):
        guide = guide_for(model.denoiser.method, likes, weight)
        texts = model.generate(48, steps=12, guide=guide)
        shares.append(np.mean(["O" in text for text in texts]))
    assert shares[1] > shares[0] + 0.2


def test_weights_are_an_axis_of_the_frontier(place):
    main(["frontier", str(place / "candi"), "--out", str(place / "sweep"), "--property", "rings", "--steps", "8",
          "--temperatures", "0.8,1", "--classifiers", str(place / "clean"), "--weights", "0,4,8", "--n", "16",
          "--device", "cpu"])  # fmt: skip
    points = read_points(place / "sweep" / "points.jsonl")
    assert [(point.cell.temperature, point.cell.guidance.weight) for point in points] == [
        (0.8, 0.0), (0.8, 4.0), (0.8, 8.0), (1.0, 0.0), (1.0, 4.0), (1.0, 8.0)
    ]  # fmt: skip
    assert {"unique_molecules", "valid_molecules", "property"} <= set(points[0].measures)
    assert "candi (temperature 0.8)" in (place / "sweep" / "frontier.md").read_text()


def test_a_clean_classifier_is_told_no_time(place):
    network, _ = load_classifier(str(place / "clean"), torch.device("cpu"))
    inputs = torch.nn.functional.one_hot(torch.randint(network.symbols, (3, 12)), network.symbols).float()
    early, late = (network(inputs, torch.full((3,), t)) for t in (0.0, 0.9))
    assert torch.equal(early, late)
    aware, _ = load_classifier(str(place / "noisy"), torch.device("cpu"))
    inputs = torch.nn.functional.one_hot(torch.randint(aware.symbols, (3, 12)), aware.symbols).float()
    assert not torch.equal(aware(inputs, torch.zeros(3)), aware(inputs, torch.full((3,), 0.9)))


def test_both_forms_of_discrete_guidance_are_swept(place, capsys):
    """Each is a curve of its own; a run that is guided by a gradient has neither. First order keeps its old key."""
    runs, both = [str(place / "candi"), str(place / "mdlm")], f"{place / 'noisy'},{place / 'clean'}"
    sweep = ["frontier", *runs, "--property", "rings", "--steps", "4", "--temperatures", "1", "--classifiers", both,
             "--weights", "0,3", "--n", "16", "--device", "cpu"]  # fmt: skip
    main([*sweep, "--dcbg", "first-order,exact", "--out", str(place / "forms")])
    points = read_points(place / "forms" / "points.jsonl")
    assert [(point.cell.run, point.cell.guidance.dcbg) for point in points] == [
        *[("candi", None)] * 2, *[("mdlm", None)] * 2, *[("mdlm", "exact")] * 2
    ]  # fmt: skip
    first, exact = points[3], points[5]
    assert first.cell.key != exact.cell.key
    assert options_of(exact.cell)["dcbg"] == "exact"
    assert "dcbg" not in options_of(first.cell)
    assert "exact" in (place / "forms" / "frontier.md").read_text()
    assert "exact, first-order" in _refused(capsys, *sweep, "--dcbg", "second", "--out", place / "none")


def test_each_run_takes_the_classifier_that_reads_it(place):
    runs = [str(place / "candi"), str(place / "mdlm")]
    both = f"{place / 'noisy'},{place / 'clean'}"
    main(["frontier", *runs, "--out", str(place / "both"), "--property", "logp", "--steps", "4", "--temperatures", "1",
          "--classifiers", both, "--weights", "0,3", "--reveal", "1", "--n", "16", "--device", "cpu"])  # fmt: skip
    points = read_points(place / "both" / "points.jsonl")
    assert [(point.cell.run, point.cell.guidance.classifier) for point in points] == [
        ("candi", "clean"), ("candi", "clean"), ("mdlm", "noisy"), ("mdlm", "noisy")
    ]  # fmt: skip
    assert [point.cell.guidance.reveal for point in points] == [1.0, 1.0, 0.0, 0.0]
    assert points[2].cell.options == {}, "discrete guidance has a step of its own"
    for wrong, complaint in (("noisy", "train one without --noisy"), ("clean", "knows its noise")):
        run = place / ("candi" if wrong == "noisy" else "mdlm")
        settings = SweepSettings(
            [run_handle(str(run))], place / "none", classifiers=(str(place / wrong),), weights=(1.0,)
        )
        with pytest.raises(UserError, match=complaint):
            Sweep(settings)
    with pytest.raises(UserError, match="has no label 5"):
        Sweep(
            SweepSettings(
                [run_handle(str(place / "candi"))], place / "none", classifiers=(str(place / "clean"),), target=5
            )
        )


def test_a_classifier_goes_on_where_it_was_stopped(place):
    base = ["train-classifier", str(place / "candi"), "--data", str(place / "some.smi"), "--label", "rings>=1",
            "--model.width", "16", "--model.blocks", "1", "--device", "cpu", "--checkpoint_every", "10"]  # fmt: skip
    main([*base, "--steps", "30", "--out", str(place / "whole")])
    main([*base, "--steps", "10", "--out", str(place / "parts")])
    main([*base, "--steps", "30", "--out", str(place / "parts")])
    files = [place / name / "checkpoints" / "step-00000030" / "model.safetensors" for name in ("whole", "parts")]
    assert files[0].read_bytes() == files[1].read_bytes()


def _refused(capsys, *arguments):
    capsys.readouterr()
    with pytest.raises(SystemExit) as exit:
        main([str(argument) for argument in arguments])
    assert exit.value.code == 2
    return capsys.readouterr().err


def test_mistakes_are_told_in_a_sentence(place, tmp_path, capsys):
    guide = ["guide", place / "candi", "--out", tmp_path / "x"]
    assert "Say by what to guide" in _refused(capsys, *guide)
    assert "no classifier at" in _refused(capsys, *guide, "--classifier", tmp_path)
    assert "train one without --noisy" in _refused(capsys, *guide, "--classifier", place / "noisy")
    assert "not the config.json of a classifier" in _refused(capsys, *guide, "--classifier", place / "mdlm")
    other = ["guide", place / "mdlm", "--classifier", place / "clean", "--out", tmp_path / "x"]
    assert "knows its noise" in _refused(capsys, *other)
    assert "no property 'beauty'" in _refused(capsys, *guide, "--label", "1", "--property", "beauty")
    assert "has no label 7" in _refused(capsys, *guide, "--label", "7")
    target = ["--classifier", place / "clean", "--target", "3"]
    assert "has no label 3; it has 0 (no), 1 (yes)" in _refused(capsys, *guide, *target)
    assert "leave them out" in _refused(capsys, *guide, "--label", "1", "--reveal", "1")
    assert "needs a --label" in _refused(capsys, *guide, "--classifier", place / "clean", "--cfg-weight", "1")
    assert "for discrete guidance" in _refused(capsys, *guide, "--classifier", place / "clean", "--dcbg", "exact")
    masked = ["guide", place / "mdlm", "--classifier", place / "noisy", "--out", tmp_path / "x"]
    assert "a step of its own" in _refused(capsys, *masked, "--order", "confidence")
    assert "cannot be made" in _refused(capsys, *guide[:2], "--label", "1", "--out", place / "some.smi")
    train = ["train-classifier", place / "candi", "--data", place / "some.smi", "--out", tmp_path / "c"]
    assert "rings is a number; give a rule" in _refused(capsys, *train, "--label", "rings")
    assert "write a property and a rule" in _refused(capsys, *train, "--label", "rings>2")
    assert "tells one label apart" in _refused(capsys, *train, "--label", "rings>=1,qed:top")
    assert "needs no classifier that knows noise" in _refused(capsys, *train, "--label", "rings>=1", "--noisy", "true")
    other = _refused(capsys, *train[:-1], place / "clean", "--label", "rings>=1", "--model.width", "16")
    assert "is another run (" in other
    assert "model.width was 32 and is now 16" in other
    train_here(tmp_path / "text", steps=2)
    none = ["--label", "1", "--out", tmp_path / "none"]
    assert "writes one stream" in _refused(capsys, "guide", tmp_path / "text", *none)
    assert not (tmp_path / "none").exists()


def test_a_model_that_recommends_options_can_be_guided_by_a_step_of_its_own(place, tmp_path, capsys):
    packed = tmp_path / "masked"
    main(["export", str(place / "mdlm"), "--out", str(packed), "--classifiers", f"rings={place / 'noisy'}", "--order",
          "confidence", "--steps", "6"])  # fmt: skip
    assert "They read molecules under the model's own noise." in (packed / "README.md").read_text()
    guided = [
        "guide",
        str(packed),
        "--classifier",
        "rings",
        "--n",
        "8",
        "--device",
        "cpu",
        "--out",
        str(tmp_path / "out"),
    ]
    main(guided)
    assert "6 steps" in (tmp_path / "out" / "molecules.html").read_text()
    assert "a step of its own" in _refused(capsys, *guided, "--order", "random")
    traced = ["trace", str(packed), "--classifier", "rings", "--device", "cpu", "--out", str(tmp_path / "t.html")]
    main(traced)
    assert "a step of its own" in _refused(capsys, *traced, "--order", "random")


def test_likelihoods_of_molecules_are_those_of_whole_rows(place, monkeypatch):
    seen = {}
    whole = evaluate.likelihood
    told = lambda model, rows, **more: seen.update(rows=rows) or whole(model, rows, **more)  # noqa: E731
    monkeypatch.setattr(evaluate, "likelihood", told)
    main(["evaluate", str(place / "mdlm"), "--data", str(place / "some.smi"), "--sequences", "20", "--device", "cpu"])
    tokenizer = load(place / "mdlm", "cpu").tokenizer
    molecules_there = {point.strip() for point in (place / "some.smi").read_text().splitlines()}
    assert len(seen["rows"]) == 20
    assert {row[0] for row in seen["rows"].tolist()} == {tokenizer.begin}
    assert {tokenizer.decode(row) for row in seen["rows"].tolist()} <= molecules_there


def test_points_that_were_guided_to_less_are_compared_as_such(place, monkeypatch, capsys):
    seen = []
    whole = frontier.compare
    monkeypatch.setattr(frontier, "compare", lambda points, axes: seen.append(axes.less) or whole(points, axes))
    for target in ("0", "1"):
        main(["frontier", str(place / "candi"), "--out", str(place / f"to{target}"), "--property", "rings", "--steps",
              "2", "--temperatures", "1", "--classifiers", str(place / "clean"), "--weights", "0,3", "--n", "8",
              "--target", target, "--device", "cpu"])  # fmt: skip
    points = [str(place / f"to{target}" / "points.jsonl") for target in ("0", "1")]
    main(["frontier", points[0], "--quality", "property", "--out", str(place / "again")])
    assert seen == [True, False, True]
    both = _refused(capsys, "frontier", *points, "--quality", "property", "--out", place / "again")
    assert "compare them by themselves" in both
    assert "cannot be written" in _refused(capsys, "frontier", points[0], "--quality", "property", "--out",
                                           place / "some.smi")  # fmt: skip


def test_a_column_is_not_held_against_what_rdkit_computes(place, tmp_path, capsys):
    """A table's own `weight`, which is no molecular weight."""
    molecules_there = (place / "some.smi").read_text().split()
    rows = [f"{text},{len(text)}" for text in molecules_there]
    (tmp_path / "own.csv").write_text("\n".join(["text,weight", *rows]) + "\n")
    main(["train-classifier", str(place / "candi"), "--data", str(tmp_path / "own.csv"), "--label", "weight>=5",
          "--steps", "5", "--model.width", "16", "--model.blocks", "1", "--device", "cpu", "--out",
          str(tmp_path / "own")])  # fmt: skip
    capsys.readouterr()
    main(["guide", str(place / "candi"), "--classifier", str(tmp_path / "own"), "--n", "8", "--steps", "4", "--device",
          "cpu", "--out", str(tmp_path / "out")])  # fmt: skip
    assert "of at least" not in capsys.readouterr().err


def test_a_place_that_cannot_be_written_is_told_before_training(place, capsys):
    told = _refused(capsys, "train-classifier", place / "candi", "--data", place / "some.smi", "--label", "rings>=1",
                    "--steps", "500000", "--out", place / "some.smi" / "inside")  # fmt: skip
    assert "Reading or writing failed" in told


def test_an_area_is_told_of_the_weights_that_it_was_measured_of(place, tmp_path):
    shutil.copytree(place / "clean", tmp_path / "clean")
    quality = json.loads((tmp_path / "clean" / "quality.json").read_text())
    (tmp_path / "clean" / "quality.json").write_text(json.dumps(quality | {"steps": quality["steps"] - 10}))
    for name, source, area in (("right", place / "clean", quality["area"]), ("wrong", tmp_path / "clean", None)):
        main(["export", str(place / "candi"), "--out", str(tmp_path / name), "--classifiers", f"rings={source}"])
        card = json.loads((tmp_path / name / "card.json").read_text())
        assert card["classifiers"]["rings"]["area"] == area


def test_another_vocabulary_is_refused(place, tmp_path):
    (tmp_path / "other.smi").write_text("CCS\nCS\n" * 10)
    train_here(tmp_path / "other", data=tmp_path / "other.smi", tokenizer="smiles", length=12, steps=2)
    _, config = load_classifier(str(place / "clean"), torch.device("cpu"))
    other = load(tmp_path / "other", "cpu")
    with pytest.raises(UserError, match="another vocabulary"):
        check_classifier(config, "clean", other.denoiser.method, "candi", other.tokenizer.fingerprint)


def test_molecules_are_counted_by_hand():
    found = measured(["CCO", "OCC", "C1CC1", "C1CC", ""], ["rings"], training=frozenset(["CCO"]))
    assert found.texts == ["CCO", "CCO", "C1CC1", None, None]
    assert (found.valid, found.unique, found.novel) == (0.6, 0.4, 0.5)
    assert found.values["rings"] == [0.0, 0.0, 1.0]
    assert found.mean("rings") == pytest.approx(1 / 3)
    assert found.hit("rings", 1) == pytest.approx(1 / 3)
    assert measured(["OCC", "C1CC1"], ["rings"], training=WordFilter.of(["CCO"])).novel == 0.5
    nothing = measured(["", "("], ["rings"])
    assert nothing.valid == 0
    assert np.isnan(nothing.mean("rings"))


def test_a_run_that_meets_bad_molecules_stops_before_it_begins(tmp_path, capsys):
    (tmp_path / "bad.smi").write_text("CCO\nC1CC\n" * 3)
    errors = _refused(
        capsys, "train", *flags(tmp_path / "run", data=tmp_path / "bad.smi", tokenizer="smiles", length=12)
    )
    assert "3 of 6 documents cannot be used: bad.smi line 2 (C1CC) is no molecule" in errors
    assert not (tmp_path / "run").exists()


def test_the_page_draws_sorts_and_shows_text_as_text(browser, tmp_path):  # noqa: F811
    drawn = [Drawn("CCO", {"qed": 0.4, "rings": 0.0}, True), Drawn("c1ccccc1", {"qed": 0.44, "rings": 1.0}, False)]
    samples = {"qed": [0.4, 0.44], "rings": [0.0, 1.0]}
    title = "Molecules of <script>alert(1)</script>"
    write_page(tmp_path / "m.html", title, {"valid": "100%"}, drawn, samples, {"qed": [0.3, 0.5], "rings": [0.0, 3.0]})
    with opened(browser, tmp_path / "m.html") as page:
        assert page.locator("h1").inner_text() == title
        assert page.locator(".grid img").count() == 2
        assert page.evaluate("[...document.images].every(i => i.complete && i.naturalWidth > 0)")
        page.select_option("#order", "rings")
        assert page.locator(".grid code").first.inner_text() == "c1ccccc1"
        assert page.locator("#charts svg").count() == 2
    with opened(browser, tmp_path / "m.html", PHONE) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_the_data_of_a_run_is_found_again(place):
    record = json.loads((place / "candi" / "run.json").read_text())
    assert Corpus(record["settings"]["data"]).fingerprint == record["data"]


@pytest.mark.parametrize("kind", ["recurrent", "bag"])
def test_classifiers_of_other_kinds_steer_as_well(place, kind):
    classifier = place / kind
    main(
        ["train-classifier", str(place / "candi"), "--data", str(place / "some.smi"), "--label", "rings>=1", "--kind",
         kind, "--learning_rate", "0.02", "--steps", "60", "--model.width", "32", "--model.blocks", "1",
         "--device", "cpu", "--out", str(classifier)]
    )  # fmt: skip
    network, config = load_classifier(str(classifier), torch.device("cpu"))
    assert config.kind == kind
    assert type(network.trunk).__name__.lower() == kind
    means = [np.mean(_rings(place, "--classifier", str(classifier), "--weight", weight)) for weight in ("0", "30")]
    assert means[1] > means[0] + 0.08  # the standard error of a difference is about 0.05


def test_a_kind_that_is_none_is_refused_in_one_sentence(place, capsys):
    base = ["train-classifier", str(place / "candi"), "--data", str(place / "some.smi"), "--label", "rings>=1", "--out",
            str(place / "none")]  # fmt: skip
    with pytest.raises(SystemExit) as stopped:
        main([*base, "--kind", "forest"])
    assert stopped.value.code == 2
    assert "forest" in capsys.readouterr().err
    assert not (place / "none").exists()


def test_a_sweep_asks_runs_that_know_labels(place, tmp_path, capsys):
    axes = ["--property", "rings", "--steps", "6", "--temperatures", "1", "--n", "64", "--device", "cpu"]
    main(
        ["frontier", str(place / "candi"), str(place / "mdlm"), *axes, "--label", "1", "--weights", "0,2",
         "--classifiers", str(place / "noisy"), "--out", str(tmp_path / "sweep")]
    )  # fmt: skip
    points = read_points(tmp_path / "sweep" / "points.jsonl")
    means = {(c.run, c.guidance.classifier, c.guidance.weight): point.measures["property"]
             for point in points for c in [point.cell]}  # fmt: skip
    assert set(means) == {("candi", None, 0.0), ("candi", None, 2.0), ("mdlm", "noisy", 0.0), ("mdlm", "noisy", 2.0)}
    assert means["candi", None, 0.0] > means["mdlm", "noisy", 0.0] + 0.1  # asked for rings, and not
    for runs, label, complaint in ((["mdlm"], "1", "trained with labels"), (["candi"], "2", "has 0 (no), 1 (yes)")):
        with pytest.raises(SystemExit):
            main(
                [
                    "frontier",
                    *(str(place / run) for run in runs),
                    *axes,
                    "--label",
                    label,
                    "--out",
                    str(tmp_path / "no"),
                ]
            )
        assert complaint in capsys.readouterr().err


def test_an_autoregressive_run_is_told_what_can_be_done(place, tmp_path, capsys):
    train_here(tmp_path / "ar", method="ar", data=place / "some.smi", tokenizer="smiles", length=12, steps=2)
    told = _refused(capsys, "guide", tmp_path / "ar", "--classifier", place / "clean", "--out", tmp_path / "out")
    assert "ar cannot be guided by a classifier; train it with --label instead" in told


def test_molecules_of_other_atoms_are_left_out_or_named(place, tmp_path, capsys):
    (tmp_path / "more.smi").write_text("CCO\nCCBr\nCC\n")
    command = ["evaluate", place / "mdlm", "--data", tmp_path / "more.smi", "--device", "cpu"]
    told = _refused(capsys, *command)
    assert "1 of 3 documents cannot be used: more.smi line 2 (CCBr) holds what the vocabulary has not" in told
    main([*map(str, command), "--skip-bad"])
    assert "2 sequences of 12 tokens" in capsys.readouterr().out


def test_validation_may_hold_one_class_alone(place, tmp_path):
    (tmp_path / "chains.smi").write_text("CCO\nCCC\nCC\n")
    train_here(tmp_path / "run", data=place / "some.smi", valid=tmp_path / "chains.smi", tokenizer="smiles", length=12,
               steps=2, label="rings>=1", validate_every=2)  # fmt: skip
