"""The models that come with the package."""

import json
import re
import shutil
from collections.abc import Callable
from functools import cache

import pytest

import candi
from candi.base.files import sha256
from candi.cli import main
from candi.diffusion.guidance import guide_for
from candi.evaluation.sequences import Measured, measured
from candi.evaluation.words import word_list, words
from candi.hub.shipped import shipped, words_of_model
from candi.model.classifiers import load_classifier


@pytest.fixture(scope="module")
def text8() -> candi.Model:
    return candi.load("text8", "cpu")


def test_four_of_five_words_exist(text8):
    """At the recommended 16 steps and temperature: 0.87 of 128 samples' words in the card. Here 10 samples, about 430
    words: a standard error near 0.023, so 0.80 is three of them below."""
    known = word_list(words_of_model("text8"))
    found = words(text8.generate(10, seed=0), known.known)
    assert found.count > 375
    assert found.valid >= 0.80
    assert found.unique > 0.45  # of so few words, most are different ones
    nonsense = words(["qzv xkqj wvvz jjqx zzkw vqpf kxjz"], known.known)
    assert nonsense.valid == 0


def test_it_recommends_sixteen_steps(text8):
    assert text8.recommended["steps"] == 16
    assert len(list(text8.trajectory(length=8))) == 17


@pytest.fixture(scope="module")
def guided() -> Callable[[str, float], Measured]:
    """So many molecules at the recommended 32 steps and temperature, guided to more of a property; each made once."""
    pytest.importorskip("rdkit")
    model = candi.load("qm9", "cpu")

    @cache
    def made(weight: float, name: str) -> list[str]:
        network, _ = load_classifier(str(shipped()["qm9"] / "classifiers" / name), model.device)
        guide = guide_for(model.denoiser.method, network.log_probability(1), weight) if weight else None
        return model.generate(64, seed=0, guide=guide)

    return lambda name, weight: measured(made(weight, name if weight else "qed"), [name])


def test_most_samples_are_molecules_and_different_ones(guided):
    """0.926 of 512 in the card. Of 64 the standard error is 0.033, so that 0.79 is four of them below."""
    found = guided("qed", 0)
    assert found.valid >= 0.79
    assert found.unique >= 0.77


@pytest.mark.parametrize(("name", "margin"), [("qed", 0.03), ("rings", 0.8)])
def test_guidance_moves_the_property_of_the_valid_ones(guided, name, margin):
    """By a weight of 10, by more than the margin: two standard errors or more below what the card says (0.056, 1.63)
    and more than two above nothing. A difference of such means over 59 and 35 to 48 molecules has one of 0.013 (QED,
    values spread by 0.07), of 0.31 (rings, by 1.5)."""
    assert guided(name, 10).mean(name) > guided(name, 0).mean(name) + margin


def test_molecules_are_guided_by_name(tmp_path, monkeypatch, capsys):
    pytest.importorskip("rdkit")
    monkeypatch.chdir(tmp_path)
    main(["guide", "qm9", "--classifier", "qed", "--weight", "2", "--n", "16", "--steps", "16", "--device", "cpu"])
    shown = capsys.readouterr()
    assert "mean qed" in shown.err
    assert shown.out.count("qed") == shown.out.count("\n") > 8
    assert "new among them" in shown.err
    assert "guided by qed, weight 2" in (tmp_path / "molecules" / "molecules.html").read_text()
    assert sum(path.stat().st_size for path in shipped()["qm9"].rglob("*") if path.is_file()) <= 8_000_000


@pytest.mark.parametrize("name", shipped())
def test_cards_tell_the_truth(name):
    folder = shipped()[name]
    card = json.loads((folder / "card.json").read_text())
    assert card["name"] == name
    assert card["sha256"] == sha256(folder / "model.safetensors")
    assert card["bytes"] == (folder / "model.safetensors").stat().st_size <= 12_000_000
    assert card["parameters"] == sum(p.numel() for p in candi.load(name, "cpu").denoiser.parameters())
    for field in ("title", "data", "licence", "training", "recommended", "measures"):
        assert card[field], field
    chosen = [row for row in card["measures"] if card["recommended"].items() <= row.items() and not row.get("weight")]
    # what it recommends is what was measured, once, or once for each property that it can be guided to
    assert len(chosen) == max(1, len(card.get("classifiers", {})))
    for path in sorted((folder / "classifiers").glob("*")):
        assert card["classifiers"][path.name]["sha256"] == sha256(path / "model.safetensors")
        assert card["classifiers"][path.name]["area"] > 0.9


def test_they_are_what_their_cards_say(capsys):
    main(["models", "--check"])
    shown = capsys.readouterr().out
    assert all(f"{name}: weights and loss (" in shown for name in shipped())


def test_they_are_listed_and_sampled_by_name(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    main(["models"])
    assert "text8" in capsys.readouterr().out
    main(["models", "text8"])
    assert "CC BY-SA" in capsys.readouterr().out
    main(["sample", "text8", "--length", "40", "--device", "cpu", "--prompt", "the history of "])
    assert re.fullmatch(r"the history of [a-z ]{25}\n", capsys.readouterr().out)
    with pytest.raises(SystemExit):
        main(["sample", "text9"])
    assert "one that ships: qm9, text8" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["models", "text9"])
    assert "did you mean 'text8'?" in capsys.readouterr().err


def test_a_folder_of_the_same_name_goes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(shipped()["text8"], tmp_path / "text8")
    (tmp_path / "text8" / "card.json").unlink()
    assert candi.load("text8", "cpu").recommended["steps"] == 32  # the folder's, which recommends nothing


def test_data_of_the_same_name_does_not_stand_in_the_way(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text8").write_text("anarchism originated as a term of abuse")
    assert candi.load("text8", "cpu").recommended["steps"] == 16
    (tmp_path / "text8").unlink()
    (tmp_path / "text8").mkdir()
    assert candi.load("text8", "cpu").recommended["steps"] == 16
