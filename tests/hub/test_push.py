"""Packed models on a hub, which is served on loopback: uploaded, loaded by name, started from."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import candi
from candi.cli import main
from candi.hub.importers import import_model
from tests.hub.loopback import Hub, running
from tests.training.runs import train_here

pytestmark = pytest.mark.usefixtures("cache")


@pytest.fixture
def hub(monkeypatch, tmp_path) -> Iterator[Hub]:
    with running() as hub:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", hub.address)
        address = hub.address + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", address)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
        for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HF_TOKEN", "hf_nobody")
        yield hub


@pytest.fixture(scope="module")
def run(tmp_path_factory, cache) -> Path:
    out = tmp_path_factory.mktemp("push") / "run"
    train_here(out, steps=4)
    return out


def test_a_run_goes_to_the_hub_and_comes_back_the_same(hub, run, tmp_path, capsys):
    """To the bit, by its name, for every door: load, sample, and as the start of another run."""
    folder = tmp_path / "packed"
    main(["export", str(run), "--out", str(folder), "--licence", "PSF-2.0", "--push", "someone/tiny", "--steps", "3"])
    assert "candi sample hf:someone/tiny" in capsys.readouterr().out
    assert hub.files["someone/tiny"] == {path.name: path.read_bytes() for path in folder.iterdir()}
    card, page = json.loads((folder / "card.json").read_text()), (folder / "README.md").read_text()
    assert card["repository"] == "someone/tiny"
    assert 'candi.load("hf:someone/tiny")' in page
    assert "PSF-2.0" in page
    here, there = candi.load(folder, "cpu"), candi.load("hf:someone/tiny", "cpu")
    weights = there.denoiser.state_dict()
    assert all(torch.equal(tensor, weights[name]) for name, tensor in here.denoiser.state_dict().items())
    assert here.generate(seed=1) == there.generate(seed=1)
    started = tmp_path / "started"
    flags = "--steps 2 --length 16 --batch-size 4 --sample-every 0 --validate-every 0 --checkpoint-every 2 --device cpu"
    main(["train", "--data", "pydoc", "--init", "hf:someone/tiny", "--out", str(started), *flags.split()])
    again = tmp_path / "again"
    main(["export", str(started), "--out", str(again)])
    training = json.loads((again / "card.json").read_text())["training"]
    assert (training["start"], training["start_sha256"]) == ("hf:someone/tiny", card["sha256"])
    assert "It started from the weights of hf:someone/tiny" in (again / "README.md").read_text()


def test_a_published_checkpoint_is_imported_from_the_hub(hub, tmp_path):
    published = Path(__file__).parent / "published" / "mdlm"
    files = {path.name: path.read_bytes() for path in published.iterdir()}
    hub.files["group/masked"] = files | {"modeling_theirs.py": b"raise SystemExit", "weights.bin": b"pickle"}
    from tests.hub.test_importers import _tokenizer

    folder = import_model("hf:group/masked", tmp_path / "out", tokenizer=str(_tokenizer(tmp_path, 40)))
    assert len(candi.load(folder, "cpu").sample(1, steps=2)[0]) > 0
    assert not list((tmp_path / "hub").rglob("*.py"))  # what is code or a pickle is not even fetched
    assert not list((tmp_path / "hub").rglob("*.bin"))


@pytest.mark.parametrize(
    ("name", "status", "complaint"),
    [
        ("no-owner", None, "write it as OWNER/NAME"),
        ("someone/tiny", 403, "cannot be written on the hub"),
        ("someone/tiny", 401, "Log in with hf auth login"),
    ],
)
def test_what_cannot_be_pushed_is_one_sentence(hub, run, tmp_path, capsys, name, status, complaint):
    """A packed model stays where it is; a name that cannot be is refused before anything is packed."""
    hub.refuse = status
    with pytest.raises(SystemExit) as stopped:
        main(["export", str(run), "--out", str(tmp_path / "packed"), "--push", name, "--steps", "2"])
    error = capsys.readouterr().err
    assert stopped.value.code == 2
    assert complaint in error
    assert error.count("\n") == 1
    assert (tmp_path / "packed").exists() == (status is not None)


def test_what_is_not_there_is_one_sentence(hub, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["sample", "hf:someone/else"])
    assert stopped.value.code == 2
    assert "'someone/else' cannot be fetched from the hub" in capsys.readouterr().err
