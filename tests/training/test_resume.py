"""Killed at any moment and started again, a run ends with the same weights, bit for bit."""

import json
import random
import signal
import time
from pathlib import Path

import pytest

from candi.base.errors import UserError
from candi.model import checkpoint
from tests.training.runs import STEPS, finish, losses, start, tensors, train_here

pytestmark = pytest.mark.usefixtures("cache")


@pytest.fixture(scope="module")
def reference(tmp_path_factory, cache) -> Path:
    """A run that was never interrupted, in a process of its own as the others are."""
    out = tmp_path_factory.mktemp("reference") / "run"
    finish(start(out))
    return out


def _same(out: Path, reference: Path) -> None:
    assert tensors(out / "checkpoints" / f"step-{STEPS:08d}") == tensors(
        reference / "checkpoints" / f"step-{STEPS:08d}"
    )
    assert losses(out) == losses(reference)


def _wait_for(path: Path, process) -> None:
    while not path.exists():
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.005)


def test_sigkill_at_random_moments(tmp_path, reference):
    """Checkpoints every second step, so that many of the moments fall into the writing of one."""
    out = tmp_path / "run"
    moments = random.Random(0)
    for _ in range(3):
        process = start(out, checkpoint_every=2)
        before = len(losses(out)) if (out / "metrics.csv").exists() else 0
        while process.poll() is None and (not (out / "metrics.csv").exists() or len(losses(out)) <= max(before, 1)):
            time.sleep(0.005)
        time.sleep(moments.uniform(0, 0.25))
        process.kill()
        process.communicate()
    finish(start(out, checkpoint_every=2))
    _same(out, reference)


@pytest.mark.parametrize("file", ["model.safetensors", "training.safetensors"])
def test_sigkill_in_the_middle_of_a_checkpoint(tmp_path, reference, file):
    """The second checkpoint dies with half of a file on disk."""
    out = tmp_path / "run"
    process = start(
        out,
        before=f"""
import os, signal
import candi.base.tensors as module
write, calls = module.save_file, []
def cut(tensors, path):
    write(tensors, path)
    calls.append(path.name)
    if calls.count({file!r}) == 2:
        os.truncate(path, os.path.getsize(path) // 2)
        os.kill(os.getpid(), signal.SIGKILL)
module.save_file = cut
""",
    )
    process.communicate(timeout=120)
    assert process.returncode == -signal.SIGKILL
    assert [path.name for path in checkpoint.found(out / "checkpoints")] == ["step-00000010"]
    assert (out / "checkpoints" / ".writing-step-00000020" / file).exists()
    finish(start(out))
    _same(out, reference)
    assert not list((out / "checkpoints").glob(".writing*"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_request_to_stop_saves_and_leaves(tmp_path, reference, number):
    out = tmp_path / "run"
    process = start(out, checkpoint_every=1000, log_every=1)
    _wait_for(out / "metrics.csv", process)
    process.send_signal(number)
    message = finish(process)
    (saved,) = checkpoint.found(out / "checkpoints")
    assert f"Stopped at step {int(saved.name[5:])} and saved" in message
    assert "Traceback" not in message
    assert 0 < int(saved.name[5:]) < STEPS
    assert f"Continuing {out} from step {int(saved.name[5:])}" in finish(start(out))
    assert tensors(out / "checkpoints" / f"step-{STEPS:08d}") == tensors(
        reference / "checkpoints" / f"step-{STEPS:08d}"
    )


@pytest.mark.parametrize("damage", ["truncated", "flipped", "removed", "no manifest", "odd manifest"])
def test_a_damaged_newest_checkpoint_is_reported_and_the_one_before_it_used(tmp_path, reference, capsys, damage):
    out = tmp_path / "run"
    newest = train_here(out, steps=40)
    victim = newest / "training.safetensors"
    content = bytearray(victim.read_bytes())
    if damage == "truncated":
        victim.write_bytes(content[:-100])
    elif damage == "flipped":
        content[-50] ^= 1
        victim.write_bytes(content)
    elif damage == "removed":
        victim.unlink()
    elif damage == "odd manifest":
        (newest / "manifest.json").write_text("[]")
    else:
        (newest / "manifest.json").unlink()
    capsys.readouterr()
    train_here(out)
    told = capsys.readouterr().err
    assert f"The checkpoint {newest} is damaged" in told.replace("\n", "")
    assert "from step 30" in told
    assert losses(out) == losses(reference)


def test_a_full_disk_keeps_the_last_good_checkpoint(tmp_path):
    """A limit on the size of files stands in for the full disk: the write itself fails, inside the operating system."""
    out = tmp_path / "run"
    good = train_here(out, steps=10)
    limit = (good / "training.safetensors").stat().st_size // 2
    process = start(out, before=f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))")
    _, message = process.communicate(timeout=120)
    assert process.returncode == 2
    assert "Traceback" not in message
    assert f"the last good checkpoint is {good}" in message
    assert [path.name for path in checkpoint.found(out / "checkpoints")] == ["step-00000010"]
    assert list(checkpoint.intact(out / "checkpoints", pytest.fail)) == [good]
    finish(start(out))


def test_a_loss_that_is_not_finite_stops_the_run(tmp_path):
    out = tmp_path / "run"
    with pytest.raises(UserError, match=r"stopped being finite at step \d+; the last good checkpoint is"):
        train_here(out, learning_rate=1e30, warmup=0, checkpoint_every=1, clip=1e30)
    assert list(checkpoint.intact(out / "checkpoints", pytest.fail))


def test_a_finished_run_is_left_alone(tmp_path, capsys):
    out = tmp_path / "run"
    last = train_here(out, steps=10)
    stamp = last.stat().st_mtime_ns
    capsys.readouterr()
    assert train_here(out, steps=10) == last
    assert "trained already" in capsys.readouterr().err
    assert last.stat().st_mtime_ns == stamp


def test_more_steps_continue_a_run(tmp_path, reference):
    out = tmp_path / "run"
    train_here(out, steps=20)
    train_here(out)
    # the process differs from the reference's, but a CPU computes the same
    assert losses(out)[-1] == losses(reference)[-1]


@pytest.mark.parametrize("change", [{"seed": 1}, {"model__width": 32}, {"candi__rank_max": 0.3}, {"batch_size": 8}])
def test_another_run_is_not_written_into_the_same_folder(tmp_path, change):
    out = tmp_path / "run"
    train_here(out, steps=10)
    record = (out / "run.json").read_bytes()
    field = next(iter(change)).replace("__", ".")
    with pytest.raises(UserError, match=f"another run \\({field} was"):
        train_here(out, steps=10, **change)
    assert (out / "run.json").read_bytes() == record


def test_a_run_that_was_begun_before_a_setting_existed_goes_on(tmp_path):
    out = tmp_path / "run"
    train_here(out, steps=10)
    record = json.loads((out / "run.json").read_text())
    for table, name in ((record["settings"], "weight_decay"), (record["settings"]["model"], "convolution"),
                        (record["settings"]["candi"], "order")):  # fmt: skip
        del table[name]
    (out / "run.json").write_text(json.dumps(record))
    train_here(out, steps=20)
    with pytest.raises(UserError, match=r"another run \(candi.order was 'random' and is now 'confidence'\)"):
        train_here(out, candi__order="confidence")


@pytest.mark.parametrize("content", ["{}", "[]", '{"settings": 3, "data": ""}', "{"])
def test_a_damaged_record_is_no_traceback(tmp_path, content):
    train_here(tmp_path / "run", steps=10)
    (tmp_path / "run" / "run.json").write_text(content)
    with pytest.raises(UserError, match=r"damaged|not valid JSON"):
        train_here(tmp_path / "run", steps=20)


def test_changed_data_is_noticed(tmp_path):
    data = tmp_path / "text.txt"
    data.write_text("some text to learn " * 100)
    train_here(tmp_path / "run", steps=10, data=data)
    data.write_text("another text to learn " * 100)
    with pytest.raises(UserError, match="data has changed"):
        train_here(tmp_path / "run", steps=20, data=data)


def test_folders_of_others_are_left_alone(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("precious")
    with pytest.raises(UserError, match="not a run"):
        train_here(tmp_path / "thesis")
    with pytest.raises(UserError, match="is a file"):
        train_here(tmp_path / "thesis" / "chapter.txt")
    assert [path.name for path in (tmp_path / "thesis").iterdir()] == ["chapter.txt"]


def test_a_mistake_leaves_no_folder_behind(tmp_path):
    for mistake in ({"data": tmp_path / "nothing"}, {"length": 10**6}, {"batch_size": 3, "micro_batch_size": 2}):
        with pytest.raises(UserError):
            train_here(tmp_path / "run", **mistake)
    assert not (tmp_path / "run").exists()


def test_two_processes_do_not_train_in_one_folder(tmp_path):
    out = tmp_path / "run"
    process = start(out, steps=100_000)
    try:
        _wait_for(out / "metrics.csv", process)
        with pytest.raises(UserError, match="Another process trains"):
            train_here(out, steps=100_000)
    finally:
        process.kill()
        process.communicate()
