"""Networks made ready to sample, and the gradients of classifiers."""

import torch

from candi.base.rng import Rng
from candi.diffusion.methods import METHODS
from candi.nets.classifier import Classifier
from candi.nets.config import ModelConfig
from candi.nets.denoiser import Denoiser
from candi.nets.dit import DiTSettings
from candi.nets.engine import Engine
from tests.gpu import DEVICE, GPU


def _denoiser(name: str) -> Denoiser:
    torch.manual_seed(0)
    trunk = DiTSettings(width=64, blocks=2, heads=2)
    denoiser = Denoiser.build(ModelConfig(50, 16, name, METHODS[name](), trunk)).to(DEVICE).eval()
    for parameter in denoiser.parameters():  # also of gates and head, which start at zero
        parameter.data.add_(0.05 * torch.randn_like(parameter))
    return denoiser


def _features(denoiser: Denoiser, network: Denoiser | Engine) -> torch.Tensor:
    x0 = torch.randint(50, (4, 16), generator=torch.Generator().manual_seed(0)).to(DEVICE)
    t = torch.linspace(0.1, 1, 4, device=DEVICE)
    with torch.no_grad():
        return network(denoiser.method.corrupt(x0, t, Rng.from_seed(0, DEVICE))).features.float()


def test_compiled_and_replayed_features_are_the_same_again():
    """bf16 has 8 bits: after two blocks features differ by a percent or so of their size; replayed, not at all."""
    for name in ("candi", "mdlm", "udlm"):
        denoiser = _denoiser(name)
        engine, plain = Engine(denoiser, compile=GPU), _features(denoiser, denoiser)
        first, again = (_features(denoiser, engine) for _ in range(2))
        assert 0 < float((plain - first).norm() / plain.norm()) < 0.02
        assert torch.equal(first, again)


def test_a_recurrent_classifier_that_is_done_learning_still_gives_its_gradient():
    """cuDNN gives none outside of training. In TF32 products are rounded to 1e-3 of their size."""
    trunk = DiTSettings(width=8, blocks=2, heads=2)
    classifier = Classifier(7, trunk, time_conditioned=False, kind="recurrent").to(DEVICE)
    inputs = torch.nn.functional.one_hot(torch.randint(7, (3, 5)), 7).float().to(DEVICE).requires_grad_()

    def gradient() -> torch.Tensor:
        liked = classifier(inputs, torch.zeros(3, device=DEVICE))[:, 1].sum()
        return torch.autograd.grad(liked, inputs)[0]

    classifier.eval()
    done = gradient()
    classifier.train()
    learning = gradient()
    assert float(learning.norm()) > 0
    assert float((done - learning).norm()) < 1e-2 * float(learning.norm())


def test_attention_has_the_values_and_gradients_of_the_exact_one():
    """In bf16, two to three digits, by the kernel that is chosen for repeatable gradients and by the fastest."""
    from candi.nets.attention import attention

    length = 256 if GPU else 16
    dtype = torch.bfloat16 if GPU else torch.float32
    for causal in (False, True):
        for repeatable in (False, True):
            torch.use_deterministic_algorithms(repeatable)
            try:
                given = [torch.randn(3, 2, length, 64, device=DEVICE, dtype=dtype) for _ in range(4)]
                found = _with_gradients(attention, given, causal)
            finally:
                torch.use_deterministic_algorithms(False)
            exact = _with_gradients(torch.nn.functional.scaled_dot_product_attention, given, causal, torch.float64)
            for one, other in zip(found, exact, strict=True):
                assert float((one.double() - other).norm() / other.norm()) < 0.02, (causal, repeatable)


def _with_gradients(function, given, causal, dtype=None):  # type: ignore[no-untyped-def]
    """The output for q, k, v and the gradients of its product with a fourth tensor."""
    q, k, v, weight = ((one if dtype is None else one.to(dtype)).detach().requires_grad_() for one in given)
    out = function(q, k, v, is_causal=causal) if dtype is not None else function(q, k, v, causal)
    (out * weight.detach()).sum().backward()
    return [out.detach(), q.grad, k.grad, v.grad]


def test_products_of_8_bit_numbers_are_those_that_a_cpu_computes():
    from candi.nets.fp8 import product

    a, b = torch.randn(1024, 256, device=DEVICE), torch.randn(512, 256, device=DEVICE)
    a, b = (a.bfloat16(), b.bfloat16()) if GPU else (a, b)
    found, expected = product(a, b).float().cpu(), product(a.cpu().float(), b.cpu().float())
    assert float((found - expected).norm() / expected.norm()) < 0.005  # sums of bf16 products are rounded


def test_a_causal_trajectory_as_graphs_is_that_step_by_step():
    """Token for token, with a prompt and without."""
    from candi.diffusion.sampler import bind_step, last_state
    from candi.nets.causal import KVCachedDenoiser, sample_causally

    denoiser = _denoiser("ar")
    method = denoiser.method
    for given in (0, 3):
        known = torch.zeros(4, 16, dtype=torch.bool, device=DEVICE)
        known[:, :given] = True
        x0, found = torch.full((4, 16), 7, device=DEVICE), []
        for graph in (False, GPU):
            rng = Rng.per_row(range(4), DEVICE)
            network = KVCachedDenoiser(denoiser, denoiser.trunk.new_cache(), Engine(denoiser, False))
            with torch.no_grad():
                prior = method.prior(x0, known, rng)
            steps = sample_causally(
                [network], network, bind_step(method), prior, method.timesteps(1, 16), rng, graph=graph
            )
            found.append(last_state(steps).tokens)
            assert network.fixed is not None
        assert torch.equal(*found)
        assert torch.equal(found[0][:, :given], x0[:, :given])
        assert found[0][:, given:].unique().numel() > 5
