"""A trained model from Python: load, generate, trajectory, save."""

import errno
import json
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

import candi
from candi.base.errors import UserError
from candi.base.tensors import write_tensors
from candi.hub.loading import locate
from tests.training.runs import train_here

pytestmark = pytest.mark.usefixtures("cache")


@pytest.fixture(scope="module", params=candi.METHODS)
def run(request, tmp_path_factory, cache) -> Path:
    out = tmp_path_factory.mktemp(request.param) / "run"
    train_here(out, steps=20, method=request.param)
    return out


@pytest.fixture
def model(run) -> candi.Model:
    return candi.load(run)


def test_generate(model):
    texts = model.generate(n=3, length=12, steps=4, temperature=0.8, seed=1)
    assert [len(text) for text in texts] == [12, 12, 12]
    assert texts == model.generate(n=3, length=12, steps=4, temperature=0.8, seed=1)
    assert texts != model.generate(n=3, length=12, steps=4, temperature=0.8, seed=2)


def test_a_sample_depends_on_its_number_and_not_on_the_batch(model):
    """Sizes of matrices may change the last bit of a logit, which moves a draw with chance 1e-7: never seen here."""
    assert model.generate(n=5, steps=4, batch_size=2) == model.generate(n=5, steps=4, batch_size=5)
    assert model.generate(n=5, steps=4)[:2] == model.generate(n=2, steps=4)


def test_nor_does_it_when_most_steps_reveal_nothing(model):
    """Many more steps than positions: rows that need no draw must not shift the draws of others."""
    options = [{}]
    for name, values in model.denoiser.method.options.items():
        options += [{name: value} for value in values]
    for option in options:
        together = model.sample(4, batch_size=4, length=5, steps=20, **option)
        alone = model.sample(4, batch_size=1, length=5, steps=20, **option)
        assert torch.equal(together, alone), option


def test_prompts_and_blanks_are_kept(model):
    prompted = model.generate(n=2, length=16, steps=3, prompt="The ")
    assert all(text.startswith("The ") and len(text) == 16 for text in prompted)
    (filled,) = model.generate(infill="a __ cat ~~", blank="~", steps=3)
    assert filled.startswith("a __ cat ")
    assert len(filled) == 11
    (filled,) = model.generate(infill="The ____ sat", steps=3, length=14)
    assert (filled[:4], filled[8:12], len(filled)) == ("The ", " sat", 14)


def test_a_trajectory_yields_every_state(model):
    states = [step.state for step in model.trajectory(n=2, length=8, steps=5, prompt="ab")]
    assert len(states) == (9 if model.denoiser.method.causal else 6)  # left to right takes a step a token
    assert states[0].known.sum().item() == 4
    assert states[-1].known.all()


def test_save_and_load_give_the_same_samples(model, tmp_path):
    model.save_pretrained(tmp_path / "saved")
    again = candi.Model.from_pretrained(str(tmp_path / "saved"))
    names = {path.name for path in (tmp_path / "saved").iterdir()}
    assert {"model.safetensors", "config.json", "tokenizer.json"} <= names
    assert again.generate(n=2, steps=3) == model.generate(n=2, steps=3)
    assert candi.load(tmp_path / "saved").generate(n=2, steps=3) == model.generate(n=2, steps=3)


def test_the_hub_is_asked_for_nothing_but_the_model(model, tmp_path, monkeypatch):
    model.save_pretrained(tmp_path / "saved")
    asked = {}
    download = lambda name, **options: asked.update(name=name, **options) or str(tmp_path / "saved")  # noqa: E731
    monkeypatch.setattr("candi.model.model.snapshot_download", download)
    monkeypatch.setattr(
        "huggingface_hub.hub_mixin.hf_hub_download", lambda **_: str(tmp_path / "saved" / "config.json")
    )
    assert candi.load("hf:someone/model").generate(steps=2) == model.generate(steps=2)
    assert asked["name"] == "someone/model"
    assert set(asked["allow_patterns"]) == {"model.safetensors", "config.json", "tokenizer.json", "card.json"}


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"prompt": "x" * 100}, "prompt has 100 tokens but the sequence only 16"),
        ({"infill": "abc_", "length": 2}, "infill template has 4 tokens"),
        ({"prompt": "a", "infill": "b_"}, "not both"),
        ({"prompt": "日本"}, "no '日', '本'"),
        ({"infill": "a__", "blank": "__"}, "single character"),
        ({"length": 0}, "at least 1"),
        ({"steps": 0}, "at least 1 step"),
        ({"temperature": 0.0}, "temperature"),
        ({"n": 0}, "At least 1 sample"),
    ],
)
def test_impossible_requests_are_refused(model, options, complaint):
    with pytest.raises(UserError, match=complaint):
        model.generate(**({"steps": 2} | options))


def _copy(model, folder: Path) -> Path:
    model.save_pretrained(folder)
    return folder


def test_damaged_weights_are_refused(model, tmp_path):
    folder = _copy(model, tmp_path / "saved")
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[: len(content) // 2])
    with pytest.raises(UserError, match="damaged or cut short"):
        candi.load(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(UserError, match="missing"):
        candi.load(folder)


def test_weights_of_another_shape_or_name_are_refused(model, tmp_path):
    folder = _copy(model, tmp_path / "saved")
    weights = load_file(folder / "model.safetensors")
    save_file({**weights, "head.bias": torch.zeros(3)}, folder / "model.safetensors")
    with pytest.raises(UserError, match="does not fit"):
        candi.load(folder)
    save_file({**weights, "stranger": torch.zeros(3)}, folder / "model.safetensors")
    with pytest.raises(UserError, match="stranger"):
        candi.load(folder)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"length": "long"}, "length must be a whole number, not 'long'"),
        ({"model": {"width": 16.5}}, "width must be a whole number"),
        ({"method": "cnadi"}, "did you mean 'candi'"),
        ({"model": {"wdith": 16}}, "did you mean 'width'"),
        ({"vocab_size": 7}, "tokenizer|does not fit"),
        ({"vocab_size": -1}, "at least 1"),
        ({"colour": "red"}, "no field 'colour'"),
    ],
)
def test_a_config_that_is_wrong_is_refused(model, tmp_path, change, complaint):
    folder = _copy(model, tmp_path / "saved")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | change))
    with pytest.raises(UserError, match=complaint):
        candi.load(folder)
    for content, reason in (("{not json", "not valid JSON"), ("[]", "expected an object")):
        (folder / "config.json").write_text(content)
        with pytest.raises(UserError, match=reason):
            candi.load(folder)


def test_another_tokenizer_is_refused(model, tmp_path):
    folder = _copy(model, tmp_path / "saved")
    other = candi.data.tokenizer.Tokenizer.train_bpe(candi.data.corpus.Corpus("pydoc").pieces(), 300)
    (folder / "tokenizer.json").write_text(other.json)
    with pytest.raises(UserError, match="300 tokens but the model was trained with"):
        candi.load(folder)


def test_places_that_hold_no_model(tmp_path):
    with pytest.raises(UserError, match="no run or checkpoint"):
        candi.load(tmp_path / "nothing")
    with pytest.raises(UserError, match="neither a run nor a checkpoint"):
        candi.load(tmp_path)
    (tmp_path / "checkpoints").mkdir()
    with pytest.raises(UserError, match="no intact checkpoint"):
        candi.load(tmp_path)


def test_a_damaged_newest_checkpoint_is_passed_over(run, tmp_path, capsys):
    import shutil

    shutil.copytree(run, tmp_path / "run")
    newest = tmp_path / "run" / "checkpoints" / "step-00000020" / "model.safetensors"
    newest.write_bytes(newest.read_bytes()[:-1])
    candi.load(tmp_path / "run")
    assert "step-00000020 is damaged" in capsys.readouterr().err


def test_what_belongs_to_a_model_comes_with_it_from_the_hub(model, tmp_path, monkeypatch):
    model.save_pretrained(tmp_path / "saved")
    asked = {}
    download = lambda name, **options: asked.update(options) or str(tmp_path / "saved")  # noqa: E731
    monkeypatch.setattr("candi.hub.loading.snapshot_download", download)
    locate("hf:someone/model")
    assert {"card.json", "words.bloom", "classifiers/**"} <= set(asked["allow_patterns"])


def test_a_disk_that_takes_no_tensors_is_an_error_like_any_other(tmp_path, monkeypatch):
    with pytest.raises(OSError, match="No such file"):
        write_tensors({"a": torch.zeros(3)}, tmp_path / "nowhere" / "a.safetensors")

    def full(*_):
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr("candi.base.tensors.save_file", full)
    with pytest.raises(OSError, match="No space left") as refused:
        write_tensors({"a": torch.zeros(3)}, tmp_path / "a.safetensors")
    assert refused.value.errno == errno.ENOSPC
