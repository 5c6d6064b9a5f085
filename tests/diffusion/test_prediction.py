import pytest
import torch
from torch import nn
from torch.nn import functional as F

from candi.base.rng import Rng
from candi.diffusion import readout
from candi.diffusion.prediction import Prediction
from candi.nets.head import Head

B, L, D, V = 3, 5, 8, 17


def _head() -> Head:
    head = Head(D, V)
    for parameter in head.parameters():
        nn.init.normal_(parameter)
    return head


@pytest.fixture(params=[2**22, 2 * V], ids=["one chunk", "two rows a chunk"])
def _budget(request, monkeypatch):
    monkeypatch.setitem(readout._BUDGET, "cpu", request.param)


@pytest.fixture
def parts(double, _budget):
    head = _head()
    features = torch.randn(B, L, D, requires_grad=True)
    open = torch.rand(B, L) < 0.6
    x0 = torch.randint(V, (B, L))
    return head, features, open, x0


def test_nll_and_its_gradients_are_those_of_dense_cross_entropy(parts):
    head, features, open, x0 = parts
    weight = torch.rand(B, L)
    lazy = Prediction(features, head, V, open).nll(x0)
    dense = F.cross_entropy(F.linear(features, head.weight, head.bias).transpose(1, 2), x0, reduction="none") * open
    torch.testing.assert_close(lazy, dense)
    wanted = [features, head.weight, head.bias]
    torch.testing.assert_close(
        torch.autograd.grad((lazy * weight).sum(), wanted), torch.autograd.grad((dense * weight).sum(), wanted)
    )


def test_mean_and_log_probs_are_the_dense_ones_where_open_and_zero_elsewhere(parts):
    head, features, open, _ = parts
    table = torch.randn(V, 4)
    lazy = Prediction(features, head, V, open)
    dense = torch.log_softmax(F.linear(features, head.weight, head.bias), -1)
    torch.testing.assert_close(lazy.log_probs(), dense * open[..., None])
    torch.testing.assert_close(lazy.mean(table), (dense.exp() @ table) * open[..., None])


def test_a_draw_does_not_depend_on_which_other_positions_are_asked(parts):
    head, features, open, _ = parts
    full = Prediction(features, head, V, torch.ones_like(open)).draw(Rng.from_seed(0))
    some = Prediction(features, head, V, torch.ones_like(open)).at(open).draw(Rng.from_seed(0))
    assert torch.equal(some, full * open)
    assert full.unique().numel() > 3


def test_map_changes_logits_everywhere(parts):
    head, features, open, x0 = parts
    cold = Prediction(features, head, V, open).map(lambda logits: logits / 0.5)
    dense = torch.log_softmax(F.linear(features, head.weight, head.bias) / 0.5, -1) * open[..., None]
    torch.testing.assert_close(cold.log_probs(), dense)
    torch.testing.assert_close(cold.nll(x0), -dense.gather(-1, x0[..., None])[..., 0])


def test_no_open_position_still_gives_every_parameter_a_gradient():
    """DDP waits for a gradient of each parameter."""
    head = _head()
    features = torch.randn(B, L, D, requires_grad=True)
    loss = Prediction(features, head, V, torch.zeros(B, L, dtype=torch.bool)).nll(torch.zeros(B, L, dtype=torch.long))
    loss.sum().backward()
    assert float(head.weight.grad.abs().sum()) == 0.0
    assert float(features.grad.abs().sum()) == 0.0


def test_bf16_features_give_float32_losses():
    head = _head().bfloat16()
    lazy = Prediction(torch.randn(B, L, D, dtype=torch.bfloat16), head, V, torch.ones(B, L, dtype=torch.bool))
    assert lazy.nll(torch.zeros(B, L, dtype=torch.long)).dtype == torch.float32
