"""A state cannot hold the answer: a method that looks for it learns nothing."""

import math
from dataclasses import replace

import pytest
import torch

from candi.base.rng import Rng
from candi.diffusion.embeddings import TokenEmbedding
from candi.diffusion.methods import MDLM, METHODS
from candi.diffusion.state import hidden
from candi.nets.denoiser import Denoiser
from candi.nets.dit import DiT, DiTSettings
from candi.training.objective import DenoisingObjective

pytestmark = pytest.mark.quick
SIZE, LENGTH = 8, 12


class Peeking(MDLM):
    """Looks tokens up at every position, known or not."""

    def embed(self, state):
        return self.embedding.lookup(state.tokens)


class Leaking(Peeking):
    """The mistake that the library does not make: a corrupted state with all of x0 in it."""

    def corrupt(self, x0, t, rng):
        return replace(super().corrupt(x0, t, rng), tokens=x0)


def _learned(method: type[MDLM]) -> float:
    """-log p(x0_i | z_t) at hidden positions after 150 steps on random tokens: whoever knows nothing has log V."""
    torch.manual_seed(0)
    embedding = TokenEmbedding(SIZE, 32)
    denoiser = Denoiser(method(embedding), DiT(DiTSettings(32, 1, 2, 16)))
    objective = DenoisingObjective(denoiser)
    optimizer = torch.optim.AdamW(denoiser.parameters(), lr=1e-2)
    for step in range(150):
        rng = Rng.from_seed(step)
        x0 = rng.integers(32, LENGTH, below=SIZE)
        optimizer.zero_grad()
        objective(x0, range(32), 32, rng).mean().backward()
        optimizer.step()
    rng = Rng.from_seed(10**6)
    x0 = rng.integers(256, LENGTH, below=SIZE)
    state = denoiser.method.corrupt(x0, torch.full((256,), 0.5), rng)
    with torch.no_grad():
        return float(denoiser(state).nll(x0)[~state.known].mean())


def test_a_method_that_looks_tokens_up_anyway_learns_nothing():
    assert _learned(Peeking) > math.log(SIZE) - 0.02  # 1,500 positions: a standard error of 0.005
    assert _learned(Leaking) < 0.1, "and would have learned all, had the state held it"


@pytest.mark.parametrize("name", METHODS)
def test_a_corrupted_state_tells_nothing_of_tokens_that_are_not_known(name):
    """Two texts under the same random numbers: where they differ and are not known, tokens are the same.

    Of discrete noise (udlm, duo) tokens are the noise itself: there they differ only where they were kept. A causal
    method shows tokens to the positions on their right alone, which its embedding proves.
    """
    method = METHODS[name]().build(TokenEmbedding(SIZE, 16)).eval()
    x0 = torch.zeros(64, LENGTH, dtype=torch.long)
    other = x0.clone()
    other[:, 5] = 1
    t = torch.full((64,), 0.7)
    one, two = (method.corrupt(tokens, t, Rng.from_seed(3)) for tokens in (x0, other))
    if method.causal:
        seen = (method.embed(one) != method.embed(two)).any(-1).any(0)
        assert seen.tolist() == [position == 6 for position in range(LENGTH)]
        return
    assert torch.equal(one.known, two.known)
    differ = one.tokens != two.tokens
    if method.extra_symbols == 0:
        assert not differ[:, torch.arange(LENGTH) != 5].any()
        assert differ[:, 5].float().mean() < 0.6  # at most alpha(0.7) = 0.3 of them are kept
        return
    assert not (differ & ~one.known).any()
    assert (one.tokens[~one.known] == 0).all()
    assert torch.equal(two.tokens[two.known], other[two.known])


def test_steps_hide_what_they_take_back():
    """Remasking: a token that is taken back is gone from the state."""
    method = MDLM(TokenEmbedding(SIZE, 16), most_remasked=0.5)
    denoiser = Denoiser(method, DiT(DiTSettings(16, 1, 2, 8)))
    rng = Rng.from_seed(0)
    nothing = torch.zeros(64, LENGTH, dtype=torch.long)
    state = method.prior(nothing, nothing.bool(), rng)
    taken_back = 0
    for s in (0.8, 0.6, 0.4, 0.2):
        later = method.step(state, lambda state=state: denoiser(state), torch.full((64,), s), rng, remask="on")
        taken_back += int((state.known & ~later.known).sum())
        assert (later.tokens[~later.known] == 0).all()
        state = later
    assert taken_back > 0


def test_hidden_keeps_what_is_known():
    tokens, known = torch.tensor([[3, 4]]), torch.tensor([[True, False]])
    assert hidden(tokens, known).tolist() == [[3, 0]]


@pytest.mark.parametrize("name", METHODS)
def test_a_method_leaves_the_embedding_as_it_was(name):
    embedding = TokenEmbedding(SIZE, 16)
    before = {key: value.clone() for key, value in embedding.state_dict().items()}
    METHODS[name]().build(embedding)
    assert embedding.state_dict().keys() == before.keys()
    assert all(torch.equal(value, before[key]) for key, value in embedding.state_dict().items())
    assert embedding.mask_vector().shape == (16,)
