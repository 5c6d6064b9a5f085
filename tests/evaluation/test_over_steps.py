"""The lab's quality over steps, of simulated sweeps."""

import math

import numpy as np
import pytest
from candi_lab.verdicts.over_steps import over_steps

from candi.evaluation.compare import compare
from tests.evaluation.test_compare import AXES, simulated


def test_quality_over_steps_at_one_diversity():
    """log cost = entropy + what the steps add: at the middle of what all reach it is read off, within its band."""
    random = np.random.default_rng(0)
    points = [
        point
        for steps, extra in ((8, 1.0), (16, 0.5))
        for point in simulated("a", lambda x, e=extra: 0.5 * x + e, random, n=256, steps=steps)
    ]
    points += simulated("b", lambda x: 0.5 * x, random, n=256, steps=16, steps_fixed=True, entropies=(3.5, 4, 5.5, 6))
    points += simulated("far", lambda x: 0.5 * x, random, n=256, steps=8, entropies=(7, 8))
    found = over_steps(compare(points, AXES))
    assert found.diversity == pytest.approx(4.25, abs=0.03)  # of 3.5 to 5, which all but one reach
    assert [(value.label, value.steps) for value in found.values] == [("a", 8), ("b", None), ("a", 16)]
    assert over_steps(compare(points[-2:], AXES)) is None  # one curve alone
    apart = simulated("a", lambda x: x, random, entropies=(1, 2)) + simulated(
        "b", lambda x: x, random, entropies=(5, 6)
    )
    assert over_steps(compare(apart, AXES)) is None  # no range is shared
    for at, extra in zip(found.values, (1.0, 0.0, 0.5), strict=True):
        assert at.low <= at.value <= at.high
        assert at.value == pytest.approx(math.exp(4.25 / 2 + extra), rel=0.05)  # 256 samples of spread 0.3: 2%
