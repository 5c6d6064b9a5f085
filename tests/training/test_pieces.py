"""Checkpoints that each process writes a part of: whole or absent, continued by any number of processes, and joined."""

import json
import signal
from pathlib import Path

import pytest
import torch

from candi import load
from candi.base.errors import UserError
from candi.base.shards import Index, TensorFile, tensors_hash
from candi.base.tensors import read_tensors, write_tensors
from candi.cli import main
from candi.model import checkpoint
from candi.model.files import WEIGHTS
from tests.training.nodes import Nodes, ended
from tests.training.runs import losses, tensors, train_here

pytestmark = pytest.mark.usefixtures("cache")
STEPS = 16
FSDP = {"steps": STEPS, "validate_every": 8, "checkpoint_every": 4, "strategy": "fsdp"}
PIECES = FSDP | {"sharded_checkpoints": True}
LAST = f"checkpoints/step-{STEPS:08d}"


@pytest.fixture(scope="module")
def two(cache) -> Nodes:
    """Two processes on this machine."""
    return Nodes(caches=(cache, cache))


@pytest.fixture(scope="module")
def whole(tmp_path_factory, two) -> Path:
    """What two processes write in whole files."""
    out = tmp_path_factory.mktemp("whole") / "run"
    ended(two.start(out, **FSDP))
    return out


@pytest.fixture(scope="module")
def pieces(tmp_path_factory, two) -> Path:
    out = tmp_path_factory.mktemp("pieces") / "run"
    said = ended(two.start(out, **PIECES))
    assert (out / LAST).exists(), said
    return out


def test_no_process_writes_the_whole(pieces, whole):
    sizes = {path.name: path.stat().st_size for path in (pieces / LAST).glob("*.safetensors")}
    assert len(sizes) == 4
    for kind in ("model", "training"):
        one = (whole / LAST / f"{kind}.safetensors").stat().st_size
        for part in (1, 2):
            assert sizes[f"{kind}-0000{part}-of-00002.safetensors"] < 0.65 * one
    assert list(checkpoint.intact(pieces / "checkpoints", pytest.fail))


def test_joined_they_are_the_whole_byte_for_byte(pieces, whole, tmp_path, capsys):
    main(["join", str(pieces), "--out", str(tmp_path / "joined")])
    assert "model.safetensors" in capsys.readouterr().out
    assert tensors(tmp_path / "joined") == tensors(whole / LAST)
    names = {path.name for path in (whole / LAST).iterdir()}
    assert {path.name for path in (tmp_path / "joined").iterdir()} == names
    assert json.loads((tmp_path / "joined" / "manifest.json").read_text()).keys() == names - {"manifest.json"}
    assert tensors_hash(pieces / LAST / WEIGHTS) == tensors_hash(whole / LAST / WEIGHTS)
    with pytest.raises(UserError, match="is there already"):
        checkpoint.joined(pieces / LAST, tmp_path / "joined")


def test_a_model_in_pieces_is_loaded_like_any_other(pieces, whole):
    assert load(pieces).generate(2, steps=4) == load(whole).generate(2, steps=4)


@pytest.mark.parametrize("how", ["two in pieces", "two with copies", "one"])
def test_a_run_in_pieces_goes_on_with_any_processes(pieces, whole, two, tmp_path, how):
    """Other numbers of processes add up in another order; the same goes on to the bit."""
    out = tmp_path / "run"
    ended(two.start(out, **PIECES | {"steps": 8}))
    if how == "one":
        train_here(out, **FSDP | {"strategy": "auto"})
    else:
        ended(two.start(out, **(PIECES if how == "two in pieces" else FSDP | {"strategy": "ddp"})))
    found, expected = TensorFile(out / LAST / WEIGHTS), TensorFile(whole / LAST / WEIGHTS)
    exact = how == "two in pieces"
    for name in expected:
        torch.testing.assert_close(found[name], expected[name], rtol=0, atol=0 if exact else 1e-5)
    if exact:
        assert losses(out) == losses(whole)


def test_whole_files_are_gone_on_with_in_pieces(two, whole, tmp_path):
    out = tmp_path / "run"
    ended(two.start(out, **FSDP | {"steps": 8}))
    ended(two.start(out, **PIECES))
    assert tensors_hash(out / LAST / WEIGHTS) == tensors_hash(whole / LAST / WEIGHTS)
    assert not (out / LAST / WEIGHTS).exists()


_DIE = """
import os, signal
import candi.base.tensors as module
write, calls = module.save_file, []
def cut(tensors, path):
    write(tensors, path)
    calls.append(path)
    if len(calls) == 4:
        os.truncate(path, os.path.getsize(path) // 2)
        os.kill(os.getpid(), signal.SIGKILL)
module.save_file = cut
"""


def test_a_checkpoint_of_which_a_process_did_not_write_its_part_never_appears(two, whole, tmp_path):
    """The second process dies with half of a file of the second checkpoint on the disk."""
    out = tmp_path / "run"
    processes = two.start(out, before=("", _DIE), **PIECES)
    first, _ = ended(processes)
    assert [process.returncode for process in processes] == [2, -signal.SIGKILL]
    assert "candi: Rank 1 of 2, on " in first
    assert [path.name for path in checkpoint.found(out / "checkpoints")] == ["step-00000004"]
    assert (out / "checkpoints" / ".writing-step-00000008").exists()
    ended(two.start(out, **PIECES))
    assert tensors_hash(out / LAST / "training.safetensors") == tensors_hash(whole / LAST / "training.safetensors")
    assert not list((out / "checkpoints").glob(".writing*"))


def test_a_damaged_piece_is_reported_and_the_checkpoint_before_it_used(two, whole, tmp_path):
    out = tmp_path / "run"
    ended(two.start(out, **PIECES | {"steps": 8}))
    newest = out / "checkpoints" / "step-00000008"
    victim = newest / "training-00002-of-00002.safetensors"
    victim.write_bytes(victim.read_bytes()[:-100])
    first, _ = ended(two.start(out, **PIECES))
    assert f"The checkpoint {newest} is damaged" in first
    assert "from step 4" in first
    assert losses(out) == losses(whole)


@pytest.mark.parametrize("change", [{"strategy": "ddp"}, {"strategy": "auto"}, {"sample_every": 4}])
def test_pieces_need_fsdp_and_make_no_samples(tmp_path, change):
    with pytest.raises(UserError, match=r"give --(strategy fsdp|sample-every 0) as well"):
        train_here(tmp_path / "run", **PIECES | change)


def test_a_file_of_any_tensors_is_joined_byte_for_byte(tmp_path):
    """Types in the order that a file has them, scalars, empty ones and further names."""
    cut = {"b": torch.randn(5, 3), "a": torch.randn(1), "é": torch.randn(4).bfloat16(), "none": torch.empty(0, 2)}
    whole = {"count": torch.tensor(3), "mask": torch.tensor([True, False]), "big": torch.randn(2).double()}
    files = [f"t-{part}.safetensors" for part in range(3)]
    for part, name in enumerate(files):
        rows = [2 * part, 2 * part + 2], [part, part + 1]
        mine = {"b": cut["b"][slice(*rows[0])], "é": cut["é"][slice(*rows[0])], "a": cut["a"][slice(*rows[1])]}
        write_tensors(mine | {"none": cut["none"]} | (whole if part == 0 else {}), tmp_path / name)
    path = tmp_path / "t.safetensors"
    Index.of(files, cut, whole, {"again": "b"}).write(path)
    found = TensorFile(path)
    write_tensors({**cut, **whole, "again": cut["b"].clone()}, tmp_path / "one.safetensors")
    assert b"".join(found.joined()) == (tmp_path / "one.safetensors").read_bytes()
    one = read_tensors(tmp_path / "one.safetensors")
    assert found.keys() == one.keys()
    assert all(torch.equal(found[name], tensor) for name, tensor in one.items())
    assert torch.equal(found.rows("b", 1, 4), cut["b"][1:4])


@pytest.mark.parametrize(
    "damage",
    [
        {"files": ["../t-0.safetensors"]}, {"files": []}, {"tensors": {"a": ["F99", [1], [[0, 1]]]}},
        {"same": {"b": "c"}}, {"tensors": {"a": ["F32", [2], [[0, 1]]]}},
        {"tensors": {"a": ["F32", [2], [[0, 2]]]}}, {"more": 1},
    ],
)  # fmt: skip
def test_a_damaged_list_of_shards_is_a_sentence(tmp_path, damage):
    path = tmp_path / "t.safetensors"
    write_tensors({"a": torch.randn(1)}, tmp_path / "t-0.safetensors")
    good = {"files": ["t-0.safetensors"], "tensors": {"a": ["F32", [1], [[0, 1]]]}, "same": {}}
    path.with_suffix(".shards.json").write_text(json.dumps(good | damage))
    with pytest.raises(UserError, match=r"damaged|do not hold all of|holds another part"):
        TensorFile(path)["a"]
