"""What a trace says of a trajectory is what happened in it."""

import math

import pytest
import torch

import candi
from candi.data.corpus import Piece
from candi.data.tokenizer import Tokenizer
from candi.diffusion.methods import METHODS
from candi.model.trace import PositionKind, trace
from candi.nets.dit import DiTSettings
from tests.toys import denoiser_of

TRUNK = DiTSettings(width=16, blocks=1, heads=2, conditioning=8)


def model_of(name: str, **options) -> candi.Model:
    tokenizer = Tokenizer.characters([Piece("abcdefgh", True)])
    torch.manual_seed(0)
    denoiser = denoiser_of(name, tokenizer.vocab_size, TRUNK, length=12, **options)
    for parameter in denoiser.parameters():
        parameter.data.add_(0.3 * torch.randn_like(parameter))
    return candi.Model(denoiser, tokenizer)


@pytest.mark.parametrize("name", METHODS)
def test_steps_are_the_states_of_the_trajectory(name):
    model = model_of(name)
    options = {"steps": 6, "seed": 3, "prompt": "ab"}
    states = [step.state for step in model.trajectory(1, first=2, **options)]
    steps = list(trace(model, options, 2, alternatives=3))
    assert len(steps) == len(states) == steps[0].steps + 1
    for state, step in zip(states, steps, strict=True):
        assert torch.equal(step.kinds == PositionKind.NOISY, ~state.known[0])
        shown = model.denoiser.method.decode(state)[0]
        seen = torch.ones_like(state.known[0]) if model.denoiser.method.noise_is_visible else state.known[0]
        assert torch.equal(step.tokens[seen], shown[seen])
        assert (step.tokens[~seen] == -1).all()
        assert step.t == pytest.approx(float(state.t[0]))
        assert (step.kinds[:2] == PositionKind.GIVEN).all()
    assert steps[-1].top is None
    assert steps[-1].clean == 1
    text = model.tokenizer.decode(steps[-1].tokens.tolist())
    assert text == model.generate(3, **options)[2]


@pytest.mark.parametrize("name", ["candi", "mdlm"])
def test_top_tokens_are_the_network_s(name):
    """The likeliest tokens, their probabilities at this temperature and the entropy, against dense ones."""
    model = model_of(name)
    options = {"steps": 4, "seed": 1, "temperature": 0.7}
    states = [step.state for step in model.trajectory(1, **options)]
    for state, step in zip(states, trace(model, options, alternatives=4), strict=True):
        if step.top is None:
            continue
        log_p = (model.denoiser(state).tempered(0.7).log_probs()[0]).detach()
        values, tokens = log_p.topk(4, -1)
        noisy = step.kinds == PositionKind.NOISY
        assert torch.equal(step.top.tokens[noisy], tokens[noisy])
        torch.testing.assert_close(step.top.probabilities[noisy], values.exp()[noisy], rtol=1e-4, atol=1e-6)
        entropy = -(log_p.exp() * log_p).sum(-1)
        torch.testing.assert_close(step.top.entropy[noisy], entropy[noisy], rtol=1e-4, atol=1e-6)
        assert float(step.top.entropy.max()) <= math.log(model.tokenizer.vocab_size) + 1e-5


def test_ranks_count_what_the_noise_makes_look_likelier():
    """With hardly any noise nothing looks likelier than the token itself; in a mask there is nothing to look at."""
    model = model_of("candi", rank_min=0.0001, rank_max=0.49)
    method = model.denoiser.method
    states = [step.state for step in model.trajectory(1, steps=5)]
    for state, step in zip(states, trace(model, {"steps": 5}), strict=True):
        if step.top is not None:
            likely = method.log_likelihood(state)[0]
            first = step.top.tokens[:, 0]
            expected = [(likely[i] > likely[i, first[i]]).sum() for i in range(12)]
            noisy = step.kinds == PositionKind.NOISY
            assert torch.equal(step.top.rank[noisy], torch.stack(expected)[noisy])
            assert step.sigma == pytest.approx(float(method.sigma(state.t)[0]))
    masked = list(trace(model_of("mdlm"), {"steps": 3}))
    assert all(step.top is None or step.top.rank is None for step in masked)
    assert masked[0].sigma is None
