from pathlib import Path

import pytest
import torch

from candi.base.errors import UserError
from candi.training.ema import EMA
from candi.training.optim import learning_rate
from candi.training.settings import TrainSettings


def _settings(**changes) -> TrainSettings:
    return TrainSettings(**({"data": "pydoc", "out": Path("nowhere"), "steps": 100} | changes))


def test_the_learning_rate_rises_stays_and_falls():
    settings = _settings(learning_rate=1.0, warmup=10, cooldown=20)
    rates = [learning_rate(settings, step) for step in range(100)]
    assert rates[:10] == pytest.approx([(i + 1) / 10 for i in range(10)])
    assert set(rates[10:80]) == {1.0}
    assert rates[80:] == pytest.approx([(100 - i) / 20 for i in range(80, 100)])


def test_the_average_warms_up():
    """d_n = min(decay, (1 + n)/(10 + n)), written out and looked at after every step: later ones forget the first."""
    weight = torch.zeros(3)
    ema = EMA([weight], 0.5)
    expected = 0.0
    for n in range(30):
        weight += 1
        ema.update(n)
        decay = min(0.5, (1 + n) / (10 + n))
        expected = decay * expected + (1 - decay) * (n + 1)
        assert float(ema.shadow[0][0]) == pytest.approx(expected, rel=1e-6)


def test_the_average_is_only_borrowed():
    weight = torch.ones(3)
    ema = EMA([weight], 0.9)
    weight += 4
    told = []
    with ema.applied(lambda: told.append(float(weight[0]))):
        assert weight.tolist() == [1, 1, 1]
    assert weight.tolist() == [5, 5, 5]
    assert told == [1, 5]


@pytest.mark.parametrize(
    "values",
    [
        {"steps": 0}, {"batch_size": 0}, {"learning_rate": 0.0}, {"learning_rate": float("nan")}, {"ema": 1.0},
        {"minutes": 0.0}, {"micro_batch_size": 0}, {"method": "cnadi"}, {"seed": -1}, {"validate_windows": 0},
    ],
)  # fmt: skip
def test_impossible_settings_are_refused(values):
    with pytest.raises(UserError):
        _settings(**values)


def test_the_average_is_no_part_of_a_gradient():
    weight = torch.nn.Parameter(torch.ones(3))
    ema = EMA([weight], 0.9)
    ema.update(5)
    assert not ema.shadow[0].requires_grad
    assert weight.requires_grad
