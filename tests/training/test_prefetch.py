"""Rows are read ahead, and nothing depends on when."""

import threading
import time

import pytest

from candi.base.errors import UserError
from candi.data.rows import Rows
from candi.training.prefetch import Prefetched
from tests.training.runs import train_here


def test_the_next_steps_are_made_while_this_one_is_used():
    made = []

    def make(step: int) -> int:
        made.append((step, threading.current_thread().name))
        return 10 * step

    ahead = Prefetched(make)
    assert ahead(4) == 40
    while len(made) < 3:
        time.sleep(0.01)
    ahead.close()
    assert [step for step, _ in made] == [4, 5, 6]
    assert all(name.startswith("prefetch") for step, name in made if step > 4)


def test_each_step_is_made_once_and_any_step_can_be_asked_for():
    made = []
    ahead = Prefetched(lambda step: made.append(step) or step)
    assert [ahead(step) for step in (0, 1, 2)] == [0, 1, 2]
    assert ahead(2) == 2  # as after a step that ran out of memory
    assert ahead(9) == 9
    ahead.close()
    assert made.count(1) == 1
    assert made.count(2) == 2


def test_what_is_waited_for_is_counted():
    ahead = Prefetched(lambda step: time.sleep(0.1))
    ahead(0)
    assert ahead.stalled == 0, "the first one nobody could make before"
    ahead(1)
    assert ahead.stalled > 0.05
    ahead.close()


def test_a_mistake_in_the_data_reaches_the_command():
    def make(step: int) -> int:
        if step == 1:
            raise UserError("no such row")
        return step

    ahead = Prefetched(make)
    ahead(0)
    with pytest.raises(UserError, match="no such row"):
        ahead(1)
    ahead.close()


def test_training_says_that_it_waits_for_data(tmp_path, cache, capfd, monkeypatch):
    data = tmp_path / "rows.txt"
    data.write_text("abc\n" * 64)
    real = Rows.windows
    monkeypatch.setattr(Rows, "windows", lambda self, numbers: time.sleep(0.15) or real(self, numbers))
    train_here(tmp_path / "run", data=data, rows=True, length=8, steps=4, log_every=1)
    assert "s for data to be read; prepare it beforehand" in capfd.readouterr().err
