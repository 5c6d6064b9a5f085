"""The two tables of a method by their formulas: vectors of tokens, and vectors of times."""

import pytest
import torch

from candi.diffusion.embeddings import TimestepEmbedder, TokenEmbedding

V, D = 300, 64


@pytest.mark.parametrize("unit", [True, False])
def test_vectors_of_tokens(double, unit):
    """Of length 1 at use, or as they are. 19,200 numbers know their size to 0.5%, 64 to 9%: four of each."""
    embedding = TokenEmbedding(V, D, unit=unit)
    table, mask = embedding.weight.detach(), embedding.mask.detach()
    assert abs(float(table.square().mean().sqrt()) * D**0.5 - 1) < 4 * 0.005
    assert abs(float(mask.square().mean().sqrt()) * D**0.5 - 1) < 4 * 0.09
    directions = table / table.norm(dim=-1, keepdim=True)
    tokens = torch.randint(V, (2, 5))
    torch.testing.assert_close(embedding.directions(), directions)
    torch.testing.assert_close(embedding.direction(tokens), directions[tokens])
    torch.testing.assert_close(embedding.rows(), directions if unit else table)
    torch.testing.assert_close(embedding.lookup(tokens), (directions if unit else table)[tokens])
    torch.testing.assert_close(embedding.mask_vector(), mask / mask.norm() if unit else mask)
    assert TokenEmbedding(V, D, mask_vector=False).mask is None


@pytest.mark.parametrize("unit", [True, False])
def test_a_mixture_is_the_sum_of_its_vectors(double, unit):
    embedding = TokenEmbedding(V, D, unit=unit)
    tokens, weights = torch.randint(V, (2, 5, 3)), torch.rand(2, 5, 3)
    expected = (weights[..., None] * embedding.lookup(tokens.flatten(1)).view(2, 5, 3, D)).sum(2)
    torch.testing.assert_close(embedding.mixture(tokens, weights), expected)


@pytest.mark.parametrize("sinusoidal", [False, True])
def test_vectors_of_times(double, sinusoidal):
    """64 waves of periods 8 pi to 0.1, evenly spaced in the logarithm, or 128 as published; then two layers."""
    embedder = TimestepEmbedder(8, sinusoidal=sinusoidal)
    if sinusoidal:
        frequencies = [10_000 ** (-i / 128) for i in range(128)]
    else:
        frequencies = [0.25 * 256 ** (i / 63) for i in range(64)]
    times = torch.tensor([-3.0, 0.7, 5.0])
    angle = times[:, None] * torch.tensor(frequencies)
    first, second = (layer for layer in embedder.mlp if isinstance(layer, torch.nn.Linear))
    waves = torch.cat([angle.cos(), angle.sin()], -1)
    torch.testing.assert_close(embedder(times), second(torch.nn.functional.silu(first(waves))), rtol=1e-6, atol=1e-6)
    assert list(embedder.state_dict()) == [f"mlp.{i}.{name}" for i in (0, 2) for name in ("weight", "bias")]
    assert bool(embedder(times).all())
    assert not TimestepEmbedder(8, zero_init=True, sinusoidal=sinusoidal)(times).any()
