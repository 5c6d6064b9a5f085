import pytest
import torch

from candi.base.errors import UserError
from candi.base.rng import Rng
from candi.diffusion.guidance import tempered
from candi.diffusion.methods import METHODS
from candi.diffusion.sampler import bind_step, sample
from candi.diffusion.schedules import timesteps
from candi.diffusion.steps import top_count
from candi.nets.denoiser import Denoiser
from candi.nets.dit import DiTSettings
from tests.toys import denoiser_of

TRUNK = DiTSettings(width=16, blocks=1, heads=2, conditioning=8)


@pytest.fixture(params=METHODS)
def denoiser(request) -> Denoiser:
    denoiser = denoiser_of(request.param, 11, TRUNK)
    torch.nn.init.normal_(denoiser.head.weight)
    return denoiser.eval()


@torch.no_grad()
def _states(denoiser, rng, batch_size=4, steps=5, denoise=None, known=None, x0=None):
    method = denoiser.method
    x0 = torch.zeros(batch_size, 9, dtype=torch.long) if x0 is None else x0
    start = method.prior(x0, torch.zeros_like(x0).bool() if known is None else known, rng)
    steps = sample(denoise or denoiser, bind_step(method), start, method.timesteps(steps, 9), rng)
    return [step.state for step in steps]


@pytest.mark.parametrize("steps", [1, 2, 7])
def test_one_network_evaluation_a_step_and_all_known_at_the_end(denoiser, steps):
    calls = 0

    def counted(state):
        nonlocal calls
        calls += 1
        return denoiser(state)

    states = _states(denoiser, Rng.from_seed(0), steps=steps, denoise=counted)
    if denoiser.method.causal:
        assert (calls, len(states)) == (9, 10)  # one a token
    elif denoiser.method.time_conditioned:
        assert (calls, len(states)) == (steps, steps + 1)
    else:
        assert calls <= steps  # where the time does not matter, a step that reveals nothing asks nothing
        assert len(states) == steps + 1
    assert states[-1].known.all()
    assert float(states[-1].t.max()) == 0


def test_known_tokens_never_change(denoiser):
    """Identity 7, for given tokens and for those revealed on the way."""
    x0 = torch.randint(11, (4, 9))
    states = _states(denoiser, Rng.from_seed(0), x0=x0, known=torch.rand(4, 9) < 0.4, steps=6)
    for earlier, later in zip(states[:-1], states[1:], strict=True):
        assert (later.known | ~earlier.known).all()
        assert torch.equal(later.tokens[earlier.known], earlier.tokens[earlier.known])


def test_a_sample_does_not_depend_on_its_batch(denoiser):
    together = _states(denoiser, Rng.per_row([5, 6, 7, 8]))[-1].tokens
    alone = _states(denoiser, Rng.per_row([7]), batch_size=1)[-1].tokens
    assert torch.equal(together[2], alone[0])


def test_low_temperature_is_greedy(denoiser):
    (state, *_) = _states(denoiser, Rng.from_seed(0), steps=1)
    with torch.no_grad():
        best = denoiser(state).mode()
        assert torch.equal(tempered(denoiser, 1e-4)(state).draw(Rng.from_seed(0)), best)
        assert not torch.equal(denoiser(state).draw(Rng.from_seed(0)), best)


@pytest.mark.parametrize("order", ["random", "confidence", "entropy"])
def test_masked_diffusion_does_not_ask_the_network_when_nothing_is_revealed(order):
    denoiser = denoiser_of("mdlm", 11, TRUNK, order=order).eval()
    calls = []
    counted = lambda state: calls.append(1) or denoiser(state)  # noqa: E731
    _states(denoiser, Rng.from_seed(0), batch_size=1, steps=200, denoise=counted)
    assert len(calls) <= 9  # nine positions, revealed one or more at a time


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("inf"), float("nan")])
def test_impossible_temperatures_are_refused(denoiser, temperature):
    with pytest.raises(UserError, match="temperature"):
        tempered(denoiser, temperature)


def test_unknown_options_are_refused_by_name(denoiser):
    takes = ", ".join(denoiser.method.options) or "none"
    with pytest.raises(UserError, match=f"no sampling option 'colour'; it takes: {takes}"):
        bind_step(denoiser.method, colour="red")
    for option, values in denoiser.method.options.items():
        with pytest.raises(UserError, match=f"did you mean {values[0]!r}"):
            bind_step(denoiser.method, **{option: values[0] + "x"})


def test_no_steps_are_refused():
    with pytest.raises(UserError, match="at least 1 step"):
        timesteps(0)


def test_of_equally_sure_positions_the_first_are_revealed():
    """In any batch: the last bit of a float decides nothing."""
    score = torch.tensor([[-1e-7, 0.0, -1e-8, -0.5], [0.0, -1e-7, -0.5, -1e-8]])
    open = torch.tensor([[True, True, True, True], [False, True, True, True]])
    chosen = top_count(score, open, torch.tensor([2, 1]))
    assert chosen.tolist() == [[True, True, False, False], [False, True, False, False]]
