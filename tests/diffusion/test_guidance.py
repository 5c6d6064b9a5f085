"""Temperature, top-k and top_p, for every method alike."""

import pytest
import torch

from candi.base.errors import UserError
from candi.diffusion.guidance import tempered, top_k, top_p
from candi.diffusion.prediction import Prediction
from candi.diffusion.state import State

P = torch.tensor([0.05, 0.4, 0.1, 0.25, 0.2])


STATE = State(torch.ones(2), torch.zeros(2, 3, dtype=torch.bool), torch.zeros(2, 3, dtype=torch.long))


def _denoise(state):
    return Prediction.from_logits(P.log().expand(2, 3, 5), torch.ones(2, 3, dtype=torch.bool))


def _probabilities(denoise) -> torch.Tensor:
    return denoise(STATE).log_probs().exp()[0, 0]


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: tempered(_denoise, 0.5), P**2 / (P**2).sum()),
        (lambda: tempered(_denoise, 1.0), P),
        (lambda: top_k(_denoise, 2), torch.tensor([0, 0.4, 0, 0.25, 0]) / 0.65),
        (lambda: top_k(_denoise, 9), P),
        (lambda: top_p(_denoise, 0.6), torch.tensor([0, 0.4, 0, 0.25, 0]) / 0.65),
        (lambda: top_p(_denoise, 0.7), torch.tensor([0, 0.4, 0, 0.25, 0.2]) / 0.85),
        (lambda: top_p(_denoise, 0.01), torch.tensor([0, 1.0, 0, 0, 0])),
        (lambda: top_p(_denoise, 1.0), P),
        (
            lambda: top_p(top_k(tempered(_denoise, 2.0), 3), 0.5),
            torch.tensor([0, 0.4**0.5, 0, 0.5, 0]) / (0.4**0.5 + 0.5),
        ),
    ],
)  # fmt: skip
def test_probabilities(make, expected):
    torch.testing.assert_close(_probabilities(make()), expected)


def test_ties_do_not_widen_top_k():
    flat = lambda state: Prediction.from_logits(torch.zeros(1, 1, 5), torch.ones(1, 1, dtype=torch.bool))  # noqa: E731
    assert int((_probabilities(top_k(flat, 2)) > 0).sum()) == 2


@pytest.mark.parametrize(("wrap", "value"), [(top_k, 0), (top_p, 0.0), (top_p, 1.5), (top_p, float("nan"))])
def test_impossible_values_are_refused(wrap, value):
    with pytest.raises(UserError):
        wrap(_denoise, value)


def test_a_nucleus_ends_where_its_mass_is_reached():
    """Of four equal tokens half the mass is two, and no bit more of it a third; of all the mass nothing is cut."""
    flat = lambda state: Prediction.from_logits(torch.zeros(1, 1, 4), torch.ones(1, 1, dtype=torch.bool))  # noqa: E731
    for mass, count in ((0.25, 1), (0.5, 2), (0.5 + 1e-9, 3), (0.75, 3), (0.9, 4)):
        assert int((_probabilities(top_p(flat, mass)) > 0).sum()) == count
    assert top_p(flat, 1.0) is flat
    assert tempered(flat, 1.0) is flat
