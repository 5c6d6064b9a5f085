import numpy as np
import pytest
import torch

from candi.base.errors import UserError
from candi.base.rng import Rng
from candi.data.batches import Windows
from candi.data.store import Joined
from candi.training.loader import ShardedLoader
from candi.training.objective import T_MIN, stratified


def _windows(tokens: int = 1000, length: int = 10, seed: int = 0) -> Windows:
    return Windows(Joined([np.arange(tokens, dtype=np.uint16)]), length, seed)


def _feed(rank: int = 0, world: int = 1, micro_batch: int = 8) -> ShardedLoader:
    return ShardedLoader(_windows(), 8, micro_batch, 0, rank, world, torch.device("cpu"))


def test_an_epoch_sees_every_window_once_and_the_next_in_another_order():
    windows = _windows()
    first = [windows.windows(np.array([i]))[0] for i in range(windows.per_epoch)]
    starts = sorted(int(w[0]) for w in first)
    assert np.diff(starts).tolist() == [10] * (len(first) - 1)
    assert all((np.diff(w) == 1).all() for w in first)
    again = [windows.windows(np.array([windows.per_epoch + i]))[0] for i in range(windows.per_epoch)]
    assert [w.tolist() for w in first] != [w.tolist() for w in again]


def test_a_batch_is_a_pure_function_of_seed_and_step():
    def batch(seed: int) -> np.ndarray:
        return _windows(seed=seed).windows(7 * 4 + np.arange(4))

    assert np.array_equal(batch(0), batch(0))
    assert not np.array_equal(batch(0), batch(1))


@pytest.mark.parametrize(("world", "micro_batch"), [(1, 8), (1, 2), (2, 4), (2, 2), (4, 1)])
def test_processes_and_micro_batches_share_the_same_global_batch(world, micro_batch):
    """Every row keeps its tokens, its time and its noise wherever it is computed."""

    def rows(feeds):
        found = {}
        for feed in feeds:
            for micro in feed.step(3):
                times = stratified(micro.row, micro.rows, micro.rng)
                noise = micro.rng.normal(len(micro.x0), 5)
                for x0, t, z in zip(micro.x0, times, noise, strict=True):
                    found[float(t)] = (x0.tolist(), z.tolist())
        return found

    assert rows([_feed()]) == rows([_feed(rank, world, micro_batch) for rank in range(world)])


def test_times_are_stratified_over_the_global_batch():
    micros = [micro for rank in range(2) for micro in _feed(rank, 2, 4).step(0)]
    t = torch.cat([stratified(micro.row, micro.rows, micro.rng) for micro in micros]).sort().values
    places = (t - T_MIN) / (1 - T_MIN) * 8
    assert places.floor().tolist() == list(range(8))
    assert stratified([0], 1, Rng.from_seed(0)) >= T_MIN


def test_validation_is_always_the_same_and_complete():
    whole = torch.cat([micro.x0 for micro in _feed().validation(20)])
    parts = [micro.x0 for rank in range(2) for micro in _feed(rank, 2, 3).validation(20)]
    assert len(whole) == 20
    assert sorted(torch.cat(parts)[:, 0].tolist()) == sorted(whole[:, 0].tolist())


def test_too_little_text_is_refused():
    """A sequence is enough to look at, two are needed to begin anywhere."""
    with pytest.raises(UserError, match="too few for sequences of 10; give more text or --length 7 at most"):
        _windows(tokens=15).check_epoch()
    _windows(tokens=20).check_epoch()
    assert len(_windows(tokens=15).first(4)) == 1
    with pytest.raises(UserError, match="too few for a sequence"):
        _windows(tokens=7)
