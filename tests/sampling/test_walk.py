import pytest
import torch

from candi.errors import UserError
from candi.guidance import tempered
from candi.methods import METHODS
from candi.nets.denoiser import Denoiser
from candi.nets.transformer import TrunkSettings
from candi.rng import Rng
from candi.sampling.steps import best
from candi.sampling.walk import stepper, walk
from candi.schedules import times

TRUNK = TrunkSettings(width=16, blocks=1, heads=2, conditioning=8)


@pytest.fixture(params=METHODS)
def denoiser(request) -> Denoiser:
    denoiser = Denoiser.build(11, TRUNK, METHODS[request.param]())
    torch.nn.init.normal_(denoiser.head.weight)
    return denoiser.eval()


@torch.no_grad()
def _walk(denoiser, rng, batch=4, steps=5, denoise=None, known=None, x0=None):
    method = denoiser.method
    x0 = torch.zeros(batch, 9, dtype=torch.long) if x0 is None else x0
    start = method.prior(x0, torch.zeros_like(x0).bool() if known is None else known, rng)
    return list(walk(denoise or denoiser, stepper(method), start, method.times(steps, 9), rng))


@pytest.mark.parametrize("steps", [1, 2, 7])
def test_one_network_evaluation_a_step_and_all_known_at_the_end(denoiser, steps):
    calls = 0

    def counted(state):
        nonlocal calls
        calls += 1
        return denoiser(state)

    states = _walk(denoiser, Rng.from_seed(0), steps=steps, denoise=counted)
    if denoiser.method.causal:
        assert (calls, len(states)) == (9, 10)  # one a token
    elif denoiser.method.timed:
        assert (calls, len(states)) == (steps, steps + 1)
    else:
        assert calls <= steps  # where the clock does not matter, a step that reveals nothing asks nothing
        assert len(states) == steps + 1
    assert states[-1].known.all()
    assert float(states[-1].t.max()) == 0


def test_known_tokens_never_change(denoiser):
    """Identity 7, for given tokens and for those revealed on the way."""
    x0 = torch.randint(11, (4, 9))
    states = _walk(denoiser, Rng.from_seed(0), x0=x0, known=torch.rand(4, 9) < 0.4, steps=6)
    for earlier, later in zip(states[:-1], states[1:], strict=True):
        assert (later.known | ~earlier.known).all()
        assert torch.equal(later.tokens[earlier.known], earlier.tokens[earlier.known])


def test_a_sample_does_not_depend_on_its_batch(denoiser):
    together = _walk(denoiser, Rng.per_row([5, 6, 7, 8]))[-1].tokens
    alone = _walk(denoiser, Rng.per_row([7]), batch=1)[-1].tokens
    assert torch.equal(together[2], alone[0])


def test_low_temperature_is_greedy(denoiser):
    (state, *_) = _walk(denoiser, Rng.from_seed(0), steps=1)
    with torch.no_grad():
        best = denoiser(state).mode()
        assert torch.equal(tempered(denoiser, 1e-4)(state).draw(Rng.from_seed(0)), best)
        assert not torch.equal(denoiser(state).draw(Rng.from_seed(0)), best)


@pytest.mark.parametrize("order", ["random", "confidence", "entropy"])
def test_masked_diffusion_does_not_ask_the_network_when_nothing_is_revealed(order):
    denoiser = Denoiser.build(11, TRUNK, METHODS["mdlm"](order=order)).eval()
    calls = []
    _walk(denoiser, Rng.from_seed(0), batch=1, steps=200, denoise=lambda state: calls.append(1) or denoiser(state))
    assert len(calls) <= 9  # nine positions, revealed one or more at a time


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("inf"), float("nan")])
def test_impossible_temperatures_are_refused(denoiser, temperature):
    with pytest.raises(UserError, match="temperature"):
        tempered(denoiser, temperature)


def test_unknown_options_are_refused_by_name(denoiser):
    with pytest.raises(UserError, match="no sampling option 'colour'"):
        stepper(denoiser.method, colour="red")
    for option, values in denoiser.method.options.items():
        with pytest.raises(UserError, match=f"did you mean {values[0]!r}"):
            stepper(denoiser.method, **{option: values[0] + "x"})


def test_no_steps_are_refused():
    with pytest.raises(UserError, match="at least 1 step"):
        times(0)


def test_of_equally_sure_positions_the_first_are_revealed():
    """In any batch: the last bit of a float decides nothing."""
    score = torch.tensor([[-1e-7, 0.0, -1e-8, -0.5], [0.0, -1e-7, -0.5, -1e-8]])
    open = torch.tensor([[True, True, True, True], [False, True, True, True]])
    assert best(score, open, torch.tensor([2, 1])).tolist() == [[True, True, False, False], [False, True, False, False]]
