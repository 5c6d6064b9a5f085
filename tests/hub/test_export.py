"""A run packed, loaded again, and sampled as its card recommends."""

import json
import shutil

import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file

import candi
from candi.base.errors import UserError
from candi.cli import main
from candi.data.corpus import Corpus
from candi.data.datasets import load_sequences
from candi.evaluation.likelihood import likelihood
from candi.evaluation.sweep import Sweep
from candi.evaluation.sweep_settings import SweepSettings
from candi.hub.export import export
from candi.hub.loading import run_handle
from candi.hub.model_card import ModelCard
from tests.training.runs import train_here

pytestmark = pytest.mark.usefixtures("cache")


@pytest.fixture(scope="module")
def run(tmp_path_factory, cache):
    out = tmp_path_factory.mktemp("export") / "run"
    train_here(out, steps=20)
    return out


@pytest.fixture(scope="module")
def packed(run, tmp_path_factory):
    about = {"title": "Small.", "data": "Python's manual", "licence": "PSF-2.0"}
    folder = tmp_path_factory.mktemp("packed") / "tiny"
    return export(str(run), folder, about, recommended={"steps": 3, "temperature": 0.5, "inference": "approximate"})


def _sweep(run, out, steps):
    return Sweep(
        SweepSettings(runs=[run_handle(str(run))], out=out, steps=steps, n=4, words="pydoc", device="cpu")
    ).go()


def test_weights_are_halved_and_nothing_else_changes(run, packed):
    weights = load_file(packed / "model.safetensors")
    assert {tensor.dtype for tensor in weights.values()} == {torch.bfloat16}
    before, after = candi.load(run), candi.load(packed)
    for name, tensor in before.denoiser.state_dict().items():
        torch.testing.assert_close(after.denoiser.state_dict()[name], tensor, rtol=2**-8, atol=0)
    assert after.config == before.config
    assert after.tokenizer.fingerprint == before.tokenizer.fingerprint


def test_a_card_s_recommendation_is_what_sampling_does(packed):
    model = candi.load(packed)
    assert model.generate(seed=4) == model.generate(seed=4, steps=3, temperature=0.5, inference="approximate")
    assert model.generate(seed=4) != model.generate(seed=4, temperature=5.0)
    assert len(list(model.trajectory())) == 4
    assert len(list(model.trajectory(steps=5))) == 6  # what is asked for goes first
    assert len(list(candi.load(packed).trajectory(steps=None))) == 4


def test_a_card_that_is_none_is_refused(packed, tmp_path):
    for text in ('{"recommended": {"steps": "many"}}', '{"recommended": 3}', "[]"):
        shutil.copytree(packed, tmp_path / "bad", dirs_exist_ok=True)
        (tmp_path / "bad" / "card.json").write_text(text)
        with pytest.raises(UserError, match="no card of a model"):
            candi.load(tmp_path / "bad", "cpu")


def test_json_tells_what_was_recommended(packed, capsys):
    main(["sample", str(packed), "--json", "--device", "cpu"])
    told = json.loads(capsys.readouterr().out)
    assert (told["steps"], told["temperature"], told["inference"]) == (3, 0.5, "approximate")


def test_the_card_tells_of_data_training_and_measures(packed, tmp_path):
    _sweep(packed, tmp_path / "s", [2, 4])
    again = export(str(packed), tmp_path / "tiny", {}, points=[tmp_path / "s" / "points.jsonl"])
    card = json.loads((again / "card.json").read_text())
    assert (card["title"], card["licence"]) == ("Small.", "PSF-2.0")
    assert card["training"]["steps"] == 20
    assert card["recommended"]["steps"] == 3
    assert [row["steps"] for row in card["measures"]] == [2, 4]
    page = (again / "README.md").read_text()
    assert f"{card['measures'][0]['valid_words']}" in page
    assert card["sha256"] in page
    assert page.startswith("---\nlibrary_name: candi\n")


def test_points_of_other_weights_are_refused(run, packed, tmp_path):
    _sweep(run, tmp_path / "s", [2])
    with pytest.raises(UserError, match="points of other weights"):
        export(str(packed), tmp_path / "x", {}, points=[tmp_path / "s" / "points.jsonl"])


def test_what_was_packed_before_stays_whole_when_something_is_wrong(run, packed, tmp_path, capsys):
    folder = tmp_path / "tiny"
    shutil.copytree(packed, folder)
    whole = {path.name: path.read_bytes() for path in folder.iterdir()}
    (tmp_path / "empty.txt").write_text("  ")
    for wrong, complaint in (
        (["--words", str(tmp_path / "nothing.txt")], "no file or folder"),
        (["--words", str(tmp_path / "empty.txt")], "holds no words"),
        (["--points", str(tmp_path / "nothing.jsonl")], "does not hold the points"),
        (["--steps", "-3"], "at least 1 step"),
        (["--temperature", "0"], "at least 1 step"),
        (["--solver", "nope"], "no solver 'nope'"),
        (["--classifiers", "qed"], "PROPERTY=FOLDER"),
    ):
        with pytest.raises(SystemExit) as exit:
            main(["export", str(run), "--out", str(folder), *wrong])
        assert exit.value.code == 2
        assert complaint in capsys.readouterr().err
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == whole
        assert sorted(path.name for path in tmp_path.iterdir()) == ["empty.txt", "tiny"]


def test_a_run_s_folder_is_no_place_for_a_pack(run, capsys):
    with pytest.raises(SystemExit):
        main(["export", str(run), "--out", str(run)])
    assert "holds more than a packed model" in capsys.readouterr().err
    assert not (run / "config.json").exists()


def test_a_foreign_card_says_nothing(packed, tmp_path):
    shutil.copytree(packed, tmp_path / "foreign")
    for text in ('{"training": 5}', '{"training": {"steps": "x"}, "measures": 3}'):
        (tmp_path / "foreign" / "card.json").write_text(text)
        again = export(str(tmp_path / "foreign"), tmp_path / "again", {"licence": "x: y #z"})
        assert "training" not in json.loads((again / "card.json").read_text())
        head = (again / "README.md").read_text().split("---")[1]
        assert yaml.safe_load(head)["license_name"] == "x: y #z"


def test_words_are_packed_as_a_filter(run, tmp_path):
    from candi.evaluation.wordfilter import WordFilter

    main(["export", str(run), "--out", str(tmp_path / "x"), "--words", "pydoc"])
    known = WordFilter.read(tmp_path / "x" / "words.bloom")
    assert "the" in known
    assert "zqxjkv" not in known


def test_a_packed_model_is_held_against_its_card(packed, tmp_path, capsys):
    """Another file of weights is refused when it is loaded; another tokenizer or configuration by the loss."""
    main(["models", str(packed), "--check"])
    loss = json.loads((packed / "card.json").read_text())["check"]["loss"]
    assert f"weights and loss ({loss:.5f} nats) are those of its card" in capsys.readouterr().out
    other = shutil.copytree(packed, tmp_path / "other")
    weights = load_file(other / "model.safetensors")
    save_file({name: tensor + 0.01 for name, tensor in weights.items()}, other / "model.safetensors")
    with pytest.raises(UserError, match="SHA-256 differs"):
        candi.load(other, "cpu")
    mixed = shutil.copytree(packed, tmp_path / "mixed")
    config = json.loads((mixed / "config.json").read_text())
    config["candi"]["mask_power"] = 2.0
    (mixed / "config.json").write_text(json.dumps(config))
    with pytest.raises(SystemExit):
        main(["models", str(mixed), "--check"])
    assert f"where its card says {loss:.5f}" in capsys.readouterr().err
    card = json.loads((mixed / "card.json").read_text())
    del card["check"]
    (mixed / "card.json").write_text(json.dumps(card))
    with pytest.raises(SystemExit):
        main(["models", str(mixed), "--check"])
    assert "tells of no loss" in capsys.readouterr().err


def test_packing_again_keeps_what_was_recommended_and_tells_the_loss_of_these_weights(run, packed, tmp_path):
    again = export(str(packed), tmp_path / "again", {}, recommended={"temperature": 0.8})
    advice = json.loads((again / "card.json").read_text())["recommended"]
    assert advice == {"steps": 3, "temperature": 0.8, "inference": "approximate"}
    other = shutil.copytree(run, tmp_path / "run")
    told = json.loads((packed / "card.json").read_text())["training"]["valid_loss"]
    with (other / "metrics.csv").open("a") as file:  # of steps that were lost with a machine
        file.write("25,1.0,99.0,0.001,1.0,1.0,1.0\n")
    card = json.loads((export(str(other), tmp_path / "packed", {}) / "card.json").read_text())
    assert card["training"]["valid_loss"] == told != 99.0


def test_the_card_tells_the_likelihood_of_held_out_text_and_which_part_is_what(packed, tmp_path):
    """As candi evaluate has it, of the weights that were packed."""
    (tmp_path / "held.txt").write_text("The assert statement is a way to insert debugging assertions. " * 20)
    again = export(str(packed), tmp_path / "again", {}, held_out=str(tmp_path / "held.txt"))
    model = candi.load(again)
    data = load_sequences(Corpus(str(tmp_path / "held.txt")), model.tokenizer, model.config.length, rows=False)
    found, card = likelihood(model, data.first(256), times=8), ModelCard.read(again)
    assert card.likelihood.bits_per_token == pytest.approx(found.bits_per_token, rel=1e-6)
    assert card.likelihood.parts == pytest.approx(found.parts)
    page = (again / "README.md").read_text()
    assert f"At most {found.bits_per_token:.3f} bits per token" in page
    assert f"tokens {found.parts['tokens']:.3f}" in page
    kept = export(str(again), tmp_path / "kept", {})
    assert ModelCard.read(kept).likelihood == card.likelihood
