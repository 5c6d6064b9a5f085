import pytest
import torch

from candi.base.rng import Rng, fold_in


def test_a_row_depends_on_its_own_stream_alone():
    alone = Rng.per_row([11]).normal(1, 5)
    together = Rng.per_row([7, 11, 13]).normal(3, 5)
    assert torch.equal(alone[0], together[1])


def test_one_stream_serves_the_whole_batch():
    assert torch.equal(Rng.from_seed(3).uniform(4, 2), torch.rand(4, 2, generator=torch.Generator().manual_seed(3)))


def test_rows_that_cannot_be_shared_are_refused():
    with pytest.raises(ValueError, match="shared equally"):
        Rng.per_row([1, 2]).uniform(3)


def test_derived_seeds_differ_and_repeat():
    seeds = {fold_in(0, "train", step, row) for step in range(50) for row in range(50)}
    assert len(seeds) == 2500
    assert fold_in(0, "train", 1, 2) == fold_in(0, "train", 1, 2) != fold_in(1, "train", 1, 2)
