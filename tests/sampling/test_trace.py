"""What a trace says of a walk is what happened in it."""

import math

import pytest
import torch

import candi
from candi.config import ModelConfig
from candi.data.corpus import Piece
from candi.data.tokenizer import Tokenizer
from candi.methods import METHODS
from candi.nets.denoiser import Denoiser
from candi.nets.transformer import TrunkSettings
from candi.sampling.trace import Kind, trace

TRUNK = TrunkSettings(width=16, blocks=1, heads=2, conditioning=8)


def model_of(name: str, **options) -> candi.Model:
    tokenizer = Tokenizer.characters([Piece("abcdefgh", True)])
    settings = METHODS[name](**options)
    torch.manual_seed(0)
    denoiser = Denoiser.build(tokenizer.vocab_size, TRUNK, settings)
    for parameter in denoiser.parameters():
        parameter.data.add_(0.3 * torch.randn_like(parameter))
    return candi.Model(denoiser, tokenizer, ModelConfig(tokenizer.vocab_size, 12, name, settings, TRUNK))


@pytest.mark.parametrize("name", METHODS)
def test_moments_are_the_states_of_the_walk(name):
    model = model_of(name)
    options = {"steps": 6, "seed": 3, "prompt": "ab"}
    states, moments = list(model.walk(1, first=2, **options)), list(trace(model, options, 2, alternatives=3))
    assert len(moments) == len(states) == moments[0].steps + 1
    for state, moment in zip(states, moments, strict=True):
        assert torch.equal(moment.kinds == Kind.NOISY, ~state.known[0])
        shown = model.denoiser.method.decode(state)[0]
        seen = torch.ones_like(state.known[0]) if model.denoiser.method.shows else state.known[0]
        assert torch.equal(moment.tokens[seen], shown[seen])
        assert (moment.tokens[~seen] == -1).all()
        assert moment.t == pytest.approx(float(state.t[0]))
        assert (moment.kinds[:2] == Kind.GIVEN).all()
    assert moments[-1].guess is None
    assert moments[-1].clean == 1
    text = model.tokenizer.decode(moments[-1].tokens.tolist())
    assert text == model.generate(3, **options)[2]


@pytest.mark.parametrize("name", ["candi", "mdlm"])
def test_guesses_are_the_network_s(name):
    """The likeliest tokens, their probabilities at this temperature and the entropy, against dense ones."""
    model = model_of(name)
    options = {"steps": 4, "seed": 1, "temperature": 0.7}
    states = list(model.walk(1, **options))
    for state, moment in zip(states, trace(model, options, alternatives=4), strict=True):
        if moment.guess is None:
            continue
        log_p = (model.denoiser(state).tempered(0.7).log_probs()[0]).detach()
        values, tokens = log_p.topk(4, -1)
        noisy = moment.kinds == Kind.NOISY
        assert torch.equal(moment.guess.tokens[noisy], tokens[noisy])
        torch.testing.assert_close(moment.guess.probabilities[noisy], values.exp()[noisy], rtol=1e-4, atol=1e-6)
        entropy = -(log_p.exp() * log_p).sum(-1)
        torch.testing.assert_close(moment.guess.entropy[noisy], entropy[noisy], rtol=1e-4, atol=1e-6)
        assert float(moment.guess.entropy.max()) <= math.log(model.tokenizer.vocab_size) + 1e-5


def test_ranks_count_what_the_noise_makes_look_likelier():
    """With hardly any noise nothing looks likelier than the token itself; in a mask there is nothing to look at."""
    model = model_of("candi", rank_min=0.0001, rank_max=0.49)
    method = model.denoiser.method
    for state, moment in zip(model.walk(1, steps=5), trace(model, {"steps": 5}), strict=True):
        if moment.guess is not None:
            likely = method.log_likelihood(state)[0]
            first = moment.guess.tokens[:, 0]
            expected = [(likely[i] > likely[i, first[i]]).sum() for i in range(12)]
            noisy = moment.kinds == Kind.NOISY
            assert torch.equal(moment.guess.rank[noisy], torch.stack(expected)[noisy])
            assert moment.sigma == pytest.approx(float(method.sigma(state.t)[0]))
    masked = list(trace(model_of("mdlm"), {"steps": 3}))
    assert all(moment.guess is None or moment.guess.rank is None for moment in masked)
    assert masked[0].sigma is None
