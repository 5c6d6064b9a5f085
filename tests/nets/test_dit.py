import dataclasses

import pytest
import torch

from candi.base.errors import UserError
from candi.nets.dit import DiT, DiTSettings
from candi.nets.layers import rotary, rotate

SMALL = DiTSettings(width=32, blocks=2, heads=2, conditioning=16)


def _awake(trunk: DiT) -> DiT:
    """Gates start at zero; give them something to do."""
    with torch.no_grad():
        for parameter in trunk.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return trunk


def test_blocks_start_as_identity():
    hidden = torch.randn(2, 7, 32)
    out = DiT(SMALL)(hidden, torch.rand(2))
    torch.testing.assert_close(out, torch.nn.functional.layer_norm(hidden * 32**0.5, (32,)))


def test_the_input_scale_is_a_setting():
    """The paper's network takes unit vectors as they are: what is 1 there is sqrt(D) here, and nothing else differs."""
    plain = _awake(DiT(dataclasses.replace(SMALL, input_scale="one")))
    scaled = DiT(SMALL)
    scaled.load_state_dict(plain.state_dict())
    hidden, time = torch.randn(2, 7, 32), torch.rand(2)
    torch.testing.assert_close(plain(32**0.5 * hidden, time), scaled(hidden, time))
    assert (plain(hidden, time) - scaled(hidden, time)).abs().max() > 0.1


def test_attention_sees_both_ways_unless_causal():
    hidden = torch.randn(1, 6, 32)
    changed = hidden.clone()
    changed[0, 3] = torch.randn(32)
    for causal, moved in ((False, [True] * 6), (True, [False] * 3 + [True] * 3)):
        trunk = _awake(DiT(SMALL, causal=causal))
        difference = (trunk(hidden, torch.zeros(1)) - trunk(changed, torch.zeros(1))).abs().amax(-1)[0]
        assert (difference > 1e-6).tolist() == moved


def test_the_clock_matters():
    trunk = _awake(DiT(SMALL))
    hidden = torch.randn(1, 6, 32)
    assert (trunk(hidden, torch.tensor([0.1])) - trunk(hidden, torch.tensor([3.0]))).abs().max() > 1e-3


def test_rotary_products_depend_on_distance_alone():
    q, k = torch.randn(2, 1, 1, 1, 16).double().unbind(0)
    angles = rotary(torch.arange(40), 16).double()
    q, k = (rotate(x.expand(1, 1, 40, 16), angles)[0, 0] for x in (q, k))
    products = q @ k.T
    torch.testing.assert_close(products[5, 2], products[33, 30], rtol=1e-5, atol=1e-6)
    assert abs(float(products[5, 2] - products[5, 4])) > 1e-3


@pytest.mark.parametrize(
    "values", [{"width": 30, "heads": 4}, {"blocks": 0}, {"dropout": 1.0}, {"width": 12, "heads": 4}]
)
def test_impossible_sizes_are_refused(values):
    with pytest.raises(UserError):
        DiTSettings(**values)
