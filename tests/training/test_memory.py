"""What a run needs is told beforehand, and it goes on with less at once where memory does not suffice."""

import json
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.fabric import Fabric

from candi.base.errors import UserError
from candi.cli import main
from candi.cli.train import settings
from candi.training.assumed import Devices
from candi.training.devices import accelerator, connect
from candi.training.display import Display
from candi.training.estimate import Estimate, estimate
from candi.training.fit import DenoiserTask, prepare
from candi.training.loop import Loop
from candi.training.memory import Allocated, MemoryNeed, NoMemoryLeft
from candi.training.run import Run, RunRecord
from candi.training.step import StepResult, TrainStep
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


def test_where_nothing_fits_it_is_said_in_a_sentence(tmp_path, narrow, monkeypatch, capsys):
    """A device that is found to be full, as GPUs are, and a CPU on which it is measured before."""
    narrow(0)
    assert "A step of a single sequence needs more than" in _refused(capsys, *flags(tmp_path / "run"))
    monkeypatch.setattr(Loop, "fit_to_memory", lambda self, display: None)
    error = _refused(capsys, *flags(tmp_path / "other"))
    assert "1 sequences at once are too many for the memory of the device. Give less --length" in error


def _refused(capsys, *arguments: str) -> str:
    with pytest.raises(SystemExit) as stopped:
        main(["train", *arguments])
    assert stopped.value.code == 2
    return capsys.readouterr().err


@pytest.fixture
def left(monkeypatch):
    """Sets what memory is left, in bytes."""
    return lambda size: monkeypatch.setattr("candi.training.loop.memory_left", lambda: size)


def _need(out: Path, **changes: Any) -> tuple[MemoryNeed, Loop]:
    asked = settings(flags(out, **changes))
    made = prepare(asked)
    dataset, denoiser = made.dataset, made.denoiser
    task = DenoiserTask(denoiser, dataset.tokenizer, denoiser.config, asked.label_dropout)
    loop = Loop(task, dataset.train, None, asked, connect(asked), Run(out))
    return loop.fit_to_memory(Display(1, silent=True)), loop


def test_tensors_are_counted_while_they_live():
    given = torch.ones(100)
    with Allocated(limit=10_000) as made:
        first = given + 1
        second = first * 2
        del first
        third = second.view(10, 10).add_(1)  # no memory of its own
        assert (made.now, made.peak) == (400, 800)
        del second, third
    assert (made.now, made.peak) == (0, 800)
    with pytest.raises(NoMemoryLeft), Allocated(limit=300):
        given + 1


def test_what_a_step_needs_is_the_same_whenever_it_is_measured(tmp_path):
    """It grows with the sequences, and a network that was measured is as it was."""
    need, loop = _need(tmp_path / "run", batch_size=8)
    before = [parameter.clone() for parameter in loop.step.parameters]
    assert _need(tmp_path / "run", batch_size=8)[0] == loop.fit_to_memory(Display(1, silent=True)) == need
    assert all(torch.equal(a, b) for a, b in zip(before, loop.step.parameters, strict=True))
    assert all(parameter.grad is None for parameter in loop.step.parameters)
    loop.step.update(0, loop.parts(4))  # makes the moments, which are kept
    moments = 2 * sum(parameter.nbytes for parameter in loop.step.parameters)
    with Allocated(limit=10**12) as made:
        loop.step.update(1, loop.parts(4))
    assert need.of(4) == pytest.approx(moments + made.peak, rel=0.1)


def test_a_cpu_computes_as_many_at_once_as_are_sure_to_fit(tmp_path, left, capsys):
    """The same weights as if the number had been asked for, which differ from those of the whole batch at once."""
    asked = train_here(tmp_path / "asked", steps=8, batch_size=12, micro_batch_size=3, model__dropout=0.1)
    whole = train_here(tmp_path / "whole", steps=8, batch_size=12, model__dropout=0.1)
    need, _ = _need(tmp_path / "need", batch_size=12)
    assert "at once" not in capsys.readouterr().err
    left(int(1.3 * need.of(3)))  # of which four fifths are taken
    found = train_here(tmp_path / "found", steps=8, batch_size=12, model__dropout=0.1)
    assert tensors(found) == tensors(asked) != tensors(whole)
    assert re.search(r"^12 sequences at once need 0\.0 GiB of memory; going on with 3,", capsys.readouterr().err, re.M)


def test_a_continued_run_computes_as_many_at_once_as_before(tmp_path, left, capsys):
    """Bit for bit, though there is more memory now."""
    need, _ = _need(tmp_path / "need", batch_size=12)
    little = int(1.3 * need.of(3))
    left(little)
    whole = train_here(tmp_path / "whole", steps=20, batch_size=12)
    train_here(tmp_path / "parts", steps=10, batch_size=12)
    left(10**12)
    assert tensors(train_here(tmp_path / "parts", steps=20, batch_size=12)) == tensors(whole)
    assert tensors(train_here(tmp_path / "other", steps=20, batch_size=12)) != tensors(whole)
    capsys.readouterr()
    left(need.of(3) - 1)  # less than what the checkpoint has been computed with
    train_here(tmp_path / "parts", steps=30, batch_size=12)
    assert "3 sequences at once need" in capsys.readouterr().err


def test_a_sequence_that_does_not_fit_is_refused_in_a_sentence(tmp_path, left, capsys):
    need, _ = _need(tmp_path / "need")
    for size in (1000, need.of(1) - 1):  # found while it is measured, and after
        left(size)
        error = _refused(capsys, *flags(tmp_path / "run"))
        assert re.fullmatch(
            r"(?s).*candi: A step of a single sequence needs .* GiB of memory, and 0\.0 GiB are free\. "
            r"Give less --length or a smaller --model\.\n",
            error,
        ), error
        assert not list((tmp_path / "run").glob("checkpoints/*"))
    left(need.of(1))
    train_here(tmp_path / "run", steps=1)


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


def test_several_devices_are_estimated_by_all_of_them_where_they_are_here(tmp_path):
    """Two processes: what they hold is no assumption."""
    command = [sys.executable, "-m", "candi", "train", *flags(tmp_path / "run", devices=2), "--estimate"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^devices +2, all measured: memory is that of the fullest", done.stdout, re.M)
    assert re.search(r"^memory .* at the peak of each of 2 devices, 2 sequences at once$", done.stdout, re.M)
    assert "ssumed" not in done.stdout
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_devices_that_are_not_here_are_estimated_by_one_and_what_is_assumed_is_said(tmp_path, capsys, strategy):
    out = tmp_path / "run"
    main(["train", *flags(out, nodes=4, devices=2, batch_size=16, strategy=strategy), "--estimate"])
    shown = capsys.readouterr().out
    assert re.search(r"^devices +8\. Measured: one device here with its 2 sequences of a step\. Assumed: ", shown, re.M)
    assert re.search(r"^memory .* at the peak of each of 8 devices, 2 sequences at once$", shown, re.M)
    assert ("two units gathered" in shown) == (strategy == "fsdp")
    with pytest.raises(UserError, match="A batch of 4 cannot be shared by 8 devices"):
        estimate(settings(flags(out, nodes=4, devices=2)))
    assert not out.exists()


def test_what_many_devices_hold_and_send():
    """A million parameters on four devices: 20 bytes of each, of which pieces hold a fourth."""
    copies, pieces = (Devices(4, pieces, 1_000_000, largest=100_000) for pieces in (False, True))
    assert copies.memory(100_000_000) == 104_000_000
    assert pieces.memory(100_000_000) == 100_000_000 - 15_000_000 + 800_000
    assert copies.sent == 2 * 4_000_000 * 3 / 4
    assert pieces.sent == 3 * 4_000_000 * 3 / 4
    assert copies.seconds == pytest.approx(6e6 / 10e9)


def test_an_estimate_refuses_what_training_would_refuse(tmp_path, capsys):
    train_here(tmp_path / "run", steps=10)
    with pytest.raises(SystemExit):
        main(["train", *flags(tmp_path / "run", seed=5), "--estimate"])
    assert "is another run (seed was 0 and is now 5)" in capsys.readouterr().err


def test_an_estimate_says_what_it_does_while_it_does_it(tmp_path, monkeypatch):
    """Each stage before its work, and what is known before the next is begun."""
    done = StepResult(torch.ones(()), torch.ones(()))
    said: list[str] = []
    monkeypatch.setattr(Display, "say", lambda self, text: said.append(text))
    monkeypatch.setattr("builtins.print", lambda *texts, **options: said.append(texts[0]))
    monkeypatch.setattr(Loop, "fit_to_memory", lambda self, display: said.append("(measures)"))
    monkeypatch.setattr(Loop, "update", lambda self, display: said.append("(steps)") or done)
    estimate(settings(flags(tmp_path / "run", cache=tmp_path / "cache")))
    said = [said[0], *[b for a, b in pairwise(said) if a != b]]
    assert [text.split(" ")[0] for text in said] == [
        "Turning", "network", "data", "disk", "Measuring", "(measures)", "Timing", "(steps)", "memory"
    ]  # fmt: skip


@pytest.mark.parametrize("changes", [{}, {"micro_batch_size": 2}])
@pytest.mark.parametrize("at_once", [1, 3, 1000])
def test_a_part_of_a_long_step_stands_for_the_whole(tmp_path, monkeypatch, at_once, changes):
    """On a clock that a sequence takes a second of."""
    seen: list[int] = []
    whole = TrainStep.update

    def update(self, step, micro_batches):
        seen.append(sum(len(micro.x0) for micro in micro_batches))
        return whole(self, step, micro_batches)

    def timed(run):
        run()
        return float(seen[-1])

    monkeypatch.setattr(TrainStep, "update", update)
    monkeypatch.setattr("candi.training.estimate._timed", timed)
    monkeypatch.setattr("candi.training.estimate._PART_SECONDS", float(at_once))
    found = estimate(settings(flags(tmp_path / "run", batch_size=12, **changes)))
    assert (found.each, found.first) == (12.0, 12.0)
    assert max(seen) <= min(at_once, 12)
    assert at_once < 1000 or max(seen) == 12


def test_an_estimate_knows_when_time_runs_out(tmp_path):
    found = Estimate(1000, first=10.0, each=2.0, memory=1, memory_there=2, checkpoint=16, micro_batch_size=4)
    whole = found.needs(settings(flags(tmp_path / "run", steps=100, batch_size=4, length=16)))
    assert "3.5 minutes for 100 steps" in whole
    short = found.needs(settings(flags(tmp_path / "run", steps=100, batch_size=4, length=16, minutes=1)))
    assert "60 seconds for 26 steps" in short


def test_the_machine_is_the_one_that_trains(tmp_path, monkeypatch):
    """A GPU that is there and not used has trained nothing."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    asked = settings(flags(tmp_path / "run", device="cpu"))
    run = Run(tmp_path / "run")
    run.claim(RunRecord(asked.to_json(), "", {}), accelerator(asked))
    run.release()
    assert json.loads((tmp_path / "run" / "run.json").read_text())["machine"]["kind"] == "cpu"
