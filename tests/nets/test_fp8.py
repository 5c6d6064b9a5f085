"""Products of 8-bit numbers: how far they are from the exact ones, and that a network learns with them."""

import pytest
import torch
from torch import nn

import candi
from candi.base.errors import UserError
from candi.base.rng import Rng
from candi.nets.dit import DiTSettings
from candi.nets.fp8 import Fp8Linear, by_row, eight_bit, product
from candi.training.devices import connect
from candi.training.settings import FitSettings
from tests.toys import denoiser_of

STEP = 2.0**-4  # the largest relative error of rounding to a mantissa of 3 bits


def test_rounding_is_relative_and_nothing_overflows():
    """Rows of very different size, a row of zeros: each entry within half a step, or of the least number's size."""
    torch.manual_seed(0)
    x = torch.randn(5, 64) * torch.tensor([1e-20, 1e-3, 1.0, 1e4, 0.0])[:, None]
    x[2, 7] = 1e6  # one large number must not make the others of its row vanish altogether
    numbers, scale = by_row(x)
    assert numbers.dtype == torch.float8_e4m3fn
    back = numbers.float() * scale
    assert bool(((back - x).abs() <= STEP * x.abs() + 2.0**-9 * scale).all())
    assert bool(torch.isfinite(back).all())
    assert torch.equal(back[4], x[4])


def test_a_product_errs_as_little_as_its_inputs():
    """Independent errors of both factors, each of relative size STEP/sqrt(3) at most: their sum grows as a root."""
    torch.manual_seed(1)
    a, b = torch.randn(64, 512), torch.randn(32, 512)
    exact = a.double() @ b.double().T
    error = (product(a, b).double() - exact).norm() / exact.norm()
    assert 0.005 < float(error) < STEP * (2 / 3) ** 0.5


@pytest.mark.parametrize("bias", [True, False])
def test_gradients_are_those_of_a_linear_layer(bias):
    torch.manual_seed(2)
    plain = nn.Linear(32, 48, bias=bias)
    rounded = Fp8Linear(plain)
    x = torch.randn(1024, 3, 32)
    results = []
    for layer in (plain, rounded):
        inputs = x.clone().requires_grad_()
        plain.zero_grad()
        out = layer(inputs)
        out.square().sum().backward()
        results.append([out.detach(), inputs.grad, *(p.grad.clone() for p in plain.parameters())])
    for exact, found in zip(*results, strict=True):
        assert found.shape == exact.shape
        assert 0 < float((found - exact).norm() / exact.norm()) < 0.06


def test_without_such_a_gpu_there_is_a_sentence(tmp_path):
    if torch.cuda.is_available():
        pytest.skip("this machine may have one")
    with pytest.raises(UserError, match="leave out --precision fp8-mixed"):
        connect(FitSettings(out=tmp_path, precision="fp8-mixed"))
    with pytest.raises(UserError, match="leave out --precision fp8-mixed"):
        candi.load("text8").sample(1, precision="fp8-mixed")


def test_a_few_rows_are_not_worth_rounding():
    torch.manual_seed(3)
    plain = nn.Linear(32, 48)
    x = torch.randn(4, 32)
    assert torch.equal(Fp8Linear(plain)(x), plain(x))


def test_a_network_keeps_its_weights_and_their_names_and_learns():
    torch.manual_seed(4)
    denoiser = denoiser_of("mdlm", 20, DiTSettings(width=32, blocks=2, heads=2), length=32)
    before = {name: tensor.clone() for name, tensor in denoiser.state_dict().items()}
    eight_bit(denoiser.trunk)
    after = denoiser.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert sum(isinstance(part, Fp8Linear) for part in denoiser.modules()) >= 8
    x0 = torch.arange(32).remainder(5).expand(64, 32)  # a text that can be learned
    optimizer, losses = torch.optim.Adam(denoiser.parameters(), 3e-3), []
    for step in range(30):
        t = torch.linspace(0.05, 1, 64)
        state = denoiser.method.corrupt(x0, t, Rng.from_seed(step))
        loss = denoiser.method.loss(denoiser(state), state, x0).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
