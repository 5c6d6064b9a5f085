"""Conditional likelihoods: exact by enumeration where they are, sure of their differences, whatever the batch."""

import itertools
import math

import pytest
import torch

import candi
from candi.base.errors import UserError
from candi.base.rng import Rng
from candi.diffusion.methods import METHODS
from candi.diffusion.state import State, hidden
from candi.evaluation.answers import continuations
from tests.evaluation.test_likelihood import _masked_likelihood, _trained

EVERY = list(itertools.product((0, 1), repeat=2))


@torch.no_grad()
def _left_to_right(model: candi.Model, x: list[int], given: int) -> float:
    """-log of the product of the conditionals."""
    x0 = torch.tensor([x])
    state = model.denoiser.method.corrupt(x0, torch.ones(1), Rng.from_seed(0))
    return float(model.denoiser.method.loss(model.denoiser(state), state, x0)[0, given:].sum())


def test_left_to_right_is_the_exact_chain():
    model = _trained("ar")
    found = continuations(model, [[1]] * 4 + [[]], [*EVERY, [0, 1, 1]])
    expected = [_left_to_right(model, [1, *answer], 1) for answer in EVERY] + [_left_to_right(model, [0, 1, 1], 0)]
    assert [one.nats for one in found] == pytest.approx(expected, rel=1e-5)
    assert all(one.error == 0 for one in found)
    assert sum(math.exp(-one.nats) for one in found[:4]) == pytest.approx(1, abs=1e-5)
    with torch.no_grad():
        state = model.denoiser.method.corrupt(
            torch.tensor([[1, *answer] for answer in EVERY]), torch.ones(4), Rng.from_seed(0)
        )
        likeliest = model.denoiser(state).mode()[:, 1:].tolist()
    chosen = [mine == list(answer) for mine, answer in zip(likeliest, EVERY, strict=True)]
    assert [one.greedy for one in found[:4]] == chosen
    assert sum(one.greedy for one in found[:4]) >= 1


def test_one_token_of_masked_diffusion_is_exact():
    """A single hidden token is read off the others at once."""
    model = _trained("mdlm")
    found = continuations(model, [[1, 1], [1, 1]], [[0], [1]], times=200)
    known = torch.tensor([[True, True, False]])
    state = State(torch.ones(1), known, hidden(torch.tensor([[1, 1, 0]]), known))
    log_p = model.denoiser(state).log_probs()[0, 2].detach()
    for one, exact in zip(found, (-log_p).tolist(), strict=True):
        assert abs(one.nats - exact) < 5 * one.error + 0.02
    assert [one.greedy for one in found] == (log_p == log_p.max()).tolist()


def test_masked_diffusion_without_a_context_is_above_the_exact_likelihood():
    model = _trained("mdlm")
    for x in itertools.product((0, 1), repeat=3):
        (found,) = continuations(model, [[]], [list(x)], times=64)
        assert found.nats + 5 * found.error > -_masked_likelihood(model, torch.tensor(x))


@pytest.mark.parametrize("name", METHODS)
def test_the_batch_changes_nothing_and_neither_does_another_run(name):
    """Float sums in another order: 1e-5."""
    model = _trained(name, steps=20)
    contexts, answers = [[0], [0], [1], [1, 0], []], [[1], [0, 1], [1, 1], [1], [0, 1]]
    one, eight, again = (
        continuations(model, contexts, answers, times=8, batch_size=size) for size in (1, 8, 8)
    )  # fmt: skip
    assert [x.nats for x in one] == pytest.approx([x.nats for x in eight], rel=1e-5)
    assert eight == again
    other = continuations(model, contexts, answers, times=8, seed=1)
    assert (other == eight) == (name == "ar")


def test_answers_to_one_context_see_the_same_noise():
    """So the difference of two answers varies less from seed to seed than the answers do."""
    model = _trained("mdlm", steps=20)
    answers = [[0, 0, 1], [0, 1, 1]]
    found = torch.tensor([
        [one.nats for one in continuations(model, [[], []], answers, times=4, seed=seed)] for seed in range(40)
    ])  # fmt: skip
    apart = found[:, 0] - found[torch.randperm(40, generator=torch.Generator().manual_seed(0)), 1]
    assert float((found[:, 0] - found[:, 1]).std()) < 0.8 * float(apart.std())


def test_an_error_covers_what_many_times_say():
    model = _trained("candi", steps=20)
    many = [continuations(model, [[0]], [[1, 1]], times=40, seed=100 + seed)[0].nats for seed in range(10)]
    truth, held = sum(many) / len(many), 0
    for seed in range(24):
        (found,) = continuations(model, [[0]], [[1, 1]], times=8, seed=seed)
        held += abs(found.nats - truth) < 3.18 * found.error  # t of 3 degrees of freedom
    assert held >= 19


def test_what_is_too_long_loses_the_beginning_of_its_context():
    model = _trained("ar")
    long, short = continuations(model, [[0, 0, 1, 1], [1, 1]], [[0], [0]])
    assert long.nats == pytest.approx(short.nats, rel=1e-6)
    for answer in ([], [0, 0, 1, 1]):
        with pytest.raises(UserError, match="An answer has 1 to 3 tokens"):
            continuations(model, [[0]], [answer])
