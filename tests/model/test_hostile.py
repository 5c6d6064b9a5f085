"""Models, runs and settings that somebody has spoilt, or made to do harm: each is refused in one sentence, at once."""

import json
import os
import resource
import shutil
import signal
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import candi
from candi.base.config import parse_json, read_json
from candi.base.errors import UserError
from candi.base.yaml_text import read_yaml
from candi.cli import main
from candi.data.pieces import Piece
from candi.data.store import Manifest
from candi.data.tokenizer import Tokenizer
from candi.hub.importers import import_model
from candi.model import checkpoint
from candi.model.classifiers import load_classifier
from candi.nets.outline import outline
from candi.nets.trunks import TRUNKS
from candi.training.loop import Progress
from tests.training.runs import train_here

pytestmark = pytest.mark.usefixtures("cache")
DEEP = "[" * 200_000 + "]" * 200_000
LONG = "9" * 10_000
BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{new}: &{new} [{','.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


@contextmanager
def at_once(seconds: float = 5.0, mebibytes: int = 600):
    """Neither time nor memory: what is refused is refused before it is made."""

    def ring(*_):
        raise AssertionError("it takes too long")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < mebibytes << 10, "it takes memory"


@contextmanager
def refused(complaint: str):
    with at_once(), pytest.raises(UserError, match=complaint) as error:
        yield
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 500


@pytest.fixture(scope="module")
def run(tmp_path_factory, cache) -> Path:
    out = tmp_path_factory.mktemp("hostile") / "run"
    train_here(out, steps=20, method="mdlm", checkpoint_every=10)
    return out


@pytest.fixture
def folder(run, tmp_path) -> Path:
    """A model's three files, without a manifest."""
    (tmp_path / "model").mkdir()
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        shutil.copy(run / "checkpoints" / "step-00000020" / name, tmp_path / "model")
    return tmp_path / "model"


def _change(folder: Path, **changes: object) -> None:
    config = read_json(folder / "config.json")
    for name, value in changes.items():
        if name in config["model"]:
            config["model"][name] = value
        else:
            config[name] = value
    (folder / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize(
    "changes",
    [
        {"blocks": 1_000_000},
        {"blocks": 10**18},
        {"blocks": 2},
        {"width": 10**9},
        {"width": 10**9, "heads": 1, "conditioning": 10**9},
        {"conditioning": 10**9},
        {"conditioning": 10**30},
        {"convolution": 10**12},
        {"convolution": 10**30},
        {"heads": 10**9},
        {"vocab_size": 10**9},
        {"vocab_size": 10**30},
        {"length": 10**12},
        {"dropout": float("nan")},
        {"dropout": 10**400},
    ],
)
def test_sizes_are_held_against_the_weights_before_anything_is_made(folder, changes):
    _change(folder, **changes)
    with refused("does not fit its config.json|cannot be divided|length of more than|must be a number"):
        candi.load(folder)


@pytest.mark.parametrize(
    "changes",
    [
        {"num_hidden_layers": 10**6},
        {"num_hidden_layers": 10**12},
        {"intermediate_size": 10**12},
        {"vocab_size": 10**8},
    ],
)
def test_so_are_those_of_a_network_of_transformers(tmp_path, changes):
    trunk = TRUNKS["transformers"]()
    config = candi.ModelConfig(9, 8, "mdlm", candi.METHODS["mdlm"](), trunk, trunk="transformers")
    tokenizer = Tokenizer.characters([Piece("abcdefghi", False)])
    candi.Model(candi.Denoiser.build(config), tokenizer).save_pretrained(tmp_path)
    candi.load(tmp_path)
    _change(tmp_path, architecture=json.dumps(json.loads(trunk.architecture) | changes))
    with refused("does not fit its config.json"):
        candi.load(tmp_path)


def test_a_network_of_a_user_s_own_is_bounded_too():
    """One that looks at numbers while it is built is built in memory, and stopped all the same."""

    class Many(nn.Module):
        def __init__(self, blocks: int, looks: bool, empty: bool = False) -> None:
            super().__init__()
            if looks:
                torch.ones(1).item()
            self.parts = nn.ModuleList(nn.Identity() if empty else nn.Linear(2, 2) for _ in range(blocks))

    two = [torch.Size((2, 2)), torch.Size((2,))]
    for looks in (False, True):
        assert outline(lambda: Many(1, looks), two) == {"parts.0.weight": (2, 2), "parts.0.bias": (2,)}  # noqa: B023
        for empty in (False, True):
            with refused("far larger"):
                outline(lambda: Many(10**8, looks, empty), two)  # noqa: B023
    assert len(outline(lambda: Many(500, False), 500 * two)) == 1000
    other = threading.Thread(target=lambda: Many(2000, False))  # of another thread nothing is counted
    with at_once():
        outline(lambda: (other.start(), other.join(), Many(1, False))[2], two)


def test_importers_hold_them_against_the_tensors(tmp_path):
    pytest.importorskip("transformers")
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(vocab_size=20, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2)
    LlamaForCausalLM(config).save_pretrained(tmp_path / "theirs")
    values = read_json(tmp_path / "theirs" / "config.json")
    for changes, complaint in (
        ({"num_hidden_layers": 10**6}, "layers"),
        ({"num_hidden_layers": 9_000}, "far larger"),
        ({"intermediate_size": 10**12}, "far larger"),
        ({"bos_token_id": float("inf")}, "must be a number"),
    ):
        (tmp_path / "theirs" / "config.json").write_text(json.dumps(values | changes))
        with refused(complaint):
            import_model(str(tmp_path / "theirs"), tmp_path / "ours")
    assert not (tmp_path / "ours").exists()


def test_classifiers_are_held_against_theirs(tmp_path):
    from candi.model.classifiers import ClassifierConfig
    from candi.nets.dit import DiTSettings

    model = {"width": 8, "blocks": 1, "heads": 1, "conditioning": 8}
    config = {"symbols": 5, "pad": None, "length": 8, "label": "rings", "threshold": 1.0, "noise": None,
              "tokenizer": "", "data": "", "kind": "transformer"}  # fmt: skip
    network = ClassifierConfig(**config, model=DiTSettings(**model)).build()
    save_file(network.state_dict(), tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(config | {"model": model}))
    load_classifier(str(tmp_path), torch.device("cpu"))
    for changes in ({"symbols": 10**9}, {"model": model | {"blocks": 10**6}}, {"model": model | {"width": 10**9}},
                    {"kind": "recurrent", "model": model | {"blocks": 10**6}}):  # fmt: skip
        (tmp_path / "config.json").write_text(json.dumps(config | {"model": model} | changes))
        with refused("does not fit its config.json"):
            load_classifier(str(tmp_path), torch.device("cpu"))
    (tmp_path / "config.json").write_text(json.dumps(config | {"model": model}))
    save_file({n: t * torch.nan for n, t in network.state_dict().items()}, tmp_path / "model.safetensors")
    with refused("NaN or infinity"):
        load_classifier(str(tmp_path), torch.device("cpu"))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_are_none_are_refused(folder, value):
    weights = load_file(folder / "model.safetensors")
    weights["trunk.final.weight"].flatten()[3] = value
    for dtype in (torch.float32, torch.bfloat16):
        save_file({name: tensor.to(dtype) for name, tensor in weights.items()}, folder / "model.safetensors")
        with refused("NaN or infinity, in trunk.final.weight"):
            candi.load(folder)


def test_weights_of_zeros_are_refused_but_a_layer_may_be_zero(folder):
    weights = load_file(folder / "model.safetensors")
    save_file(weights | {"head.weight": torch.zeros_like(weights["head.weight"])}, folder / "model.safetensors")
    candi.load(folder)
    table = torch.zeros_like(weights["method.embedding.weight"])
    none = {name: torch.zeros_like(tensor) for name, tensor in weights.items()}
    for zeros in (none, weights | {"method.embedding.weight": table}):
        save_file(zeros, folder / "model.safetensors")
        with refused("nothing but zeros"):
            candi.load(folder)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (DEEP, "nested too deeply"),
        ('{"length": ' + LONG + "}", "too long"),
        ("[" * 900 + "]" * 900, "expected an object"),
        ('{"method": "mdlm", "' + "x" * 10**6 + '": 1}', "no field"),
        ('{"method": "mdlm", "vocab_size": -' + "9" * 4000 + "}", "length is missing"),
        ('{"method": "mdlm", "vocab_size": [' + "9" * 4000 + "]}", "must be a whole number"),
    ],
)
def test_json_that_is_endless_is_a_sentence(folder, content, complaint):
    (folder / "config.json").write_text(content)
    with refused(complaint):
        candi.load(folder)


def test_in_every_json_file(folder, run, tmp_path):
    (folder / "card.json").write_text(DEEP)
    with refused("card.json is nested too deeply"):
        candi.load(folder)
    for content in (DEEP, LONG):
        with refused("nested too deeply|too long"):
            parse_json(content, "it")
    (tmp_path / "manifest.json").write_text(DEEP)
    with refused("nested too deeply"):
        Manifest.read(tmp_path)
    shutil.copytree(run, tmp_path / "run")
    (tmp_path / "run" / "run.json").write_text(DEEP)
    with refused("nested too deeply"):
        train_here(tmp_path / "run", steps=20, method="mdlm", checkpoint_every=10)


@pytest.mark.parametrize(
    "content",
    [{"step": "ten"}, {"step": [1]}, {"stepp": 1}, [1], 3, None, {"seconds": None}, {"step": -1}, {"step": 1.5},
     {"loss_sum": float("nan")}, {"micro_batch_size": 0}],
)  # fmt: skip
def test_progress_of_wrong_types_is_a_sentence(run, tmp_path, content):
    shutil.copytree(run, tmp_path / "run")
    at = tmp_path / "run" / "checkpoints" / "step-00000020"
    (at / "progress.json").write_text(json.dumps(content))
    with refused("progress.json"):
        Progress.read(at / "progress.json")
    manifest = read_json(at / "manifest.json")
    manifest["progress.json"] = checkpoint.sha256(at / "progress.json")
    (at / "manifest.json").write_text(json.dumps(manifest))
    with refused("progress.json"):
        train_here(tmp_path / "run", steps=30, method="mdlm", checkpoint_every=10)


def test_files_that_are_devices_are_not_read(folder):
    for name in ("config.json", "model.safetensors", "tokenizer.json", "card.json"):
        kept = (folder / name).rename(folder / "kept") if (folder / name).exists() else None
        (folder / name).symlink_to("/dev/zero")
        with refused(f"{name} is no file"):
            candi.load(folder)
        (folder / name).unlink()
        if kept is not None:
            kept.rename(folder / name)
    os.mkfifo(folder / "card.json")
    with refused("card.json is no file"):
        candi.load(folder)


@pytest.mark.parametrize("name", ["/dev/zero", "../../../../../dev/zero", "../step-00000010/config.json", "."])
def test_a_manifest_names_files_of_its_folder_alone(run, tmp_path, name):
    shutil.copytree(run, tmp_path / "run")
    at = tmp_path / "run" / "checkpoints" / "step-00000020"
    manifest = read_json(at / "manifest.json")
    (at / "manifest.json").write_text(json.dumps({name: manifest["config.json"]} | manifest))
    with refused("damaged .*names what is not in the folder"):
        candi.load(at)
    for content in ({}, [], {"config.json": 3}, manifest | {"model.safetensors": None}):
        (at / "manifest.json").write_text(json.dumps(content))
        with refused("is not what was written"):
            candi.load(at)
    (at / "model.safetensors").unlink()
    (at / "model.safetensors").symlink_to("/dev/zero")
    (at / "manifest.json").write_text(json.dumps(manifest))
    with refused("model.safetensors is missing"):
        candi.load(at)


def test_a_damaged_checkpoint_is_not_sampled_by_its_folder(run, tmp_path, capsys):
    shutil.copytree(run, tmp_path / "run")
    at = tmp_path / "run" / "checkpoints" / "step-00000020"
    candi.load(at)
    weights = load_file(at / "model.safetensors")
    save_file(weights | {"head.bias": weights["head.bias"] + 1}, at / "model.safetensors")
    with pytest.raises(SystemExit):
        main(["sample", str(at), "--device", "cpu"])
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "step-00000020 is damaged (model.safetensors is not what was written)" in err


@pytest.mark.parametrize("kind", ["folder", "file", "nothing", "itself"])
def test_a_linked_old_checkpoint_stops_no_save(tmp_path, kind):
    """The link goes, what it leads to stays."""
    target = tmp_path / "elsewhere"
    if kind == "folder":
        target.mkdir()
        (target / "precious").touch()
    elif kind == "file":
        target.touch()
    parent = tmp_path / "checkpoints"
    parent.mkdir()
    (parent / "step-00000001").symlink_to(parent / "step-00000001" if kind == "itself" else target)
    (parent / "step-00000003").symlink_to(target)  # of the step that is written
    (parent / ".writing-step-00000003").symlink_to(target)
    (parent / "step-00000002").mkdir()
    checkpoint.write(parent, 3, lambda at: (at / "config.json").touch(), keep=2)
    assert sorted(path.name for path in parent.iterdir()) == ["step-00000002", "step-00000003"]
    assert not (parent / "step-00000003").is_symlink()
    assert (kind != "folder") or (target / "precious").exists()
    assert (kind != "file") or target.exists()


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (BOMB, "aliases stand for more"),
        ("a: &a [*a]", "aliases stand for more"),
        ("a: &a {b: *a}\n<<: *a", "aliases stand for more"),
        ("a: " + "[" * 200_000, "nested too deeply"),
        ("\n".join(f"{' ' * depth}a:" for depth in range(500)), "nested too deeply"),
        (f"steps: {LONG}", "digits|too long"),
    ],
)
def test_settings_that_grow_without_end_are_a_sentence(tmp_path, capsys, content, complaint):
    (tmp_path / "run.yaml").write_text(content)
    with refused(complaint):
        read_yaml(tmp_path / "run.yaml")
    with at_once(), pytest.raises(SystemExit):
        main(["train", "--config", str(tmp_path / "run.yaml"), "--data", "pydoc", "--out", str(tmp_path / "out")])
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert len(err) < 500


def test_an_experiment_is_held_to_the_same(tmp_path):
    from candi_lab.runner.experiment import read

    (tmp_path / "mine.yaml").write_text(BOMB)
    with refused("aliases stand for more"):
        read(str(tmp_path / "mine.yaml"), "toy")
    with refused("is no file"):
        read_yaml(Path("/dev/zero"))


def test_honest_aliases_are_read(tmp_path):
    (tmp_path / "a.yaml").write_text("a: &a {width: 8}\nb: *a\nc: [*a, *a]\n")
    assert read_yaml(tmp_path / "a.yaml") == {"a": {"width": 8}, "b": {"width": 8}, "c": [{"width": 8}] * 2}
