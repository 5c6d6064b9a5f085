"""The number of devices does not change what is learned."""

import sys

import pytest

from tests.training.runs import finish, losses, start_anew, train_here

pytestmark = pytest.mark.usefixtures("cache")
STEPS = 24


def _close(one, other) -> None:
    """Sums in another order: a few units in the last place of float32, grown over 24 steps."""
    assert [row[0] for row in one] == [row[0] for row in other]
    for a, b in zip(one[1:], other[1:], strict=True):
        assert [float(x or 0) for x in a] == pytest.approx([float(x or 0) for x in b], rel=1e-4)


@pytest.fixture(scope="module")
def alone(tmp_path_factory, cache):
    out = tmp_path_factory.mktemp("alone") / "run"
    train_here(out, steps=STEPS, validate_every=8)
    return losses(out)


def test_two_processes_give_the_losses_of_one(tmp_path, alone):
    """gloo on the CPU, shards of the model. Validation swaps weights in and out on the way. Copies of it, and runs that
    go on with other processes, are tested with nodes and pieces."""
    out = tmp_path / "run"
    finish(start_anew(out, steps=STEPS, validate_every=8, devices=2, strategy="fsdp"))
    _close(losses(out), alone)


def test_micro_batches_give_the_losses_of_whole_ones(tmp_path, alone):
    out = tmp_path / "run"
    train_here(out, steps=STEPS, validate_every=8, micro_batch_size=1)
    _close(losses(out), alone)


def test_bfloat16_trains_to_nearly_the_same_losses(tmp_path, alone):
    """Eight bits of mantissa: within two percent."""
    out = tmp_path / "run"
    train_here(out, steps=STEPS, validate_every=8, precision="bf16")
    for a, b in zip(losses(out)[1:], alone[1:], strict=True):
        assert float(a[1]) == pytest.approx(float(b[1]), rel=0.02)


def test_a_compiled_trunk_gives_the_same_losses(tmp_path, alone):
    """In a process of its own: the compiler does not like checked types. Nor does it find an installation whose path
    has a space in it, which must end in a sentence."""
    out = tmp_path / "run"
    process = start_anew(out, steps=4, validate_every=0, compile=True)
    if " " in sys.prefix:
        _, message = process.communicate(timeout=120)
        assert process.returncode == 2
        assert "leave out --compile" in message
        assert "Traceback" not in message
    else:
        finish(process)
        _close(losses(out), alone[: len(losses(out))])
