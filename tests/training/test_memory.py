"""What a run needs is told beforehand, and it goes on with less at once where memory does not suffice."""

import json
import re

import pytest
import torch
from lightning.fabric import Fabric

from candi.base.errors import UserError
from candi.cli import main
from candi.cli.train import settings
from candi.training.devices import accelerator
from candi.training.estimate import Estimate, estimate
from candi.training.run import Run, RunRecord
from candi.training.step import TrainStep
from tests.training.runs import flags, tensors, train_here

pytestmark = pytest.mark.usefixtures("cache")


@pytest.fixture
def narrow(monkeypatch):
    """A device that holds so many sequences at once; what does not fit fails half way through its step."""

    def holds(most: int, error: RuntimeError | None = None) -> None:
        whole = TrainStep._losses

        def losses(self, micro):
            found = whole(self, micro)
            if self.objective.training and len(micro.x0) > most:
                self.fabric.backward(found.mean())  # gradients that must not be kept
                raise error or torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
            return found

        monkeypatch.setattr(TrainStep, "_losses", losses)

    return holds


@pytest.mark.parametrize(
    "error", [None, RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory")]
)
def test_a_run_goes_on_with_what_memory_holds(tmp_path, narrow, capsys, error):
    """The same weights, bit for bit, as if the smaller number had been asked for."""
    asked = train_here(tmp_path / "asked", steps=8, batch_size=6, micro_batch_size=2, model__dropout=0.1)
    narrow(2, error)
    found = train_here(tmp_path / "found", steps=8, batch_size=6, model__dropout=0.1)
    assert tensors(found) == tensors(asked)
    shown = capsys.readouterr().err
    assert "6 sequences at once are too many for the memory of the device; going on with 3." in shown
    assert "3 sequences at once are too many for the memory of the device; going on with 2." in shown
    assert "going on with 1." not in shown


def test_where_nothing_fits_it_is_said_in_a_sentence(tmp_path, narrow, capsys):
    narrow(0)
    with pytest.raises(SystemExit) as stopped:
        main(["train", *flags(tmp_path / "run")])
    assert stopped.value.code == 2
    assert (
        "1 sequences at once are too many for the memory of the device. Give less --length" in capsys.readouterr().err
    )


def test_several_devices_are_told_what_to_ask_for(tmp_path, narrow, monkeypatch):
    """They would have to agree on it; the first of two is told before it waits for the other."""
    monkeypatch.setattr(Fabric, "world_size", property(lambda self: 2))
    narrow(2)
    with pytest.raises(UserError, match=r"4 sequences at once are too many.* Give --micro-batch-size 2"):
        train_here(tmp_path / "run", batch_size=8)


def test_an_error_of_another_kind_is_not_taken_for_one_of_memory(tmp_path, narrow):
    narrow(2, RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        train_here(tmp_path / "run")


def test_an_estimate_trains_nothing_and_tells_what_is_true(tmp_path, capsys):
    out = tmp_path / "run"
    main(["train", *flags(out), "--estimate"])
    shown = capsys.readouterr().out
    assert not out.exists()
    for name in ("network", "data", "memory", "time", "disk"):
        assert re.search(rf"^{name} ", shown, re.M), name
    found = estimate(settings(flags(out)))
    assert found is not None
    assert 0 < found.memory < found.memory_there
    assert found.micro_batch_size == 4
    assert not out.exists()
    newest = train_here(out, steps=10)
    files = [path.stat().st_size for path in newest.glob("*.safetensors")]
    assert found.checkpoint == pytest.approx(sum(files), rel=0.1)  # their heads are not counted


def test_an_estimate_refuses_what_training_would_refuse(tmp_path, capsys):
    train_here(tmp_path / "run", steps=10)
    with pytest.raises(SystemExit):
        main(["train", *flags(tmp_path / "run", seed=5), "--estimate"])
    assert "is another run (seed was 0 and is now 5)" in capsys.readouterr().err


def test_an_estimate_knows_when_time_runs_out(tmp_path):
    found = Estimate(1000, first=10.0, each=2.0, memory=1, memory_there=2, checkpoint=16, micro_batch_size=4)
    whole = found.lines(settings(flags(tmp_path / "run", steps=100, batch_size=4, length=16)), "a text")
    assert "3.5 minutes for 100 steps" in whole
    short = found.lines(settings(flags(tmp_path / "run", steps=100, batch_size=4, length=16, minutes=1)), "a text")
    assert "60 seconds for 26 steps" in short


def test_the_machine_is_the_one_that_trains(tmp_path, monkeypatch):
    """A GPU that is there and not used has trained nothing."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    asked = settings(flags(tmp_path / "run", device="cpu"))
    run = Run(tmp_path / "run")
    run.claim(RunRecord(asked.to_json(), "", {}), accelerator(asked))
    run.release()
    assert json.loads((tmp_path / "run" / "run.json").read_text())["machine"]["kind"] == "cpu"
