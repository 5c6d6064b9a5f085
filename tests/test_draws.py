import torch

from candi.draws import categorical


def test_draws_follow_the_probabilities_down_to_one_in_a_billion():
    """A chi-square over a million draws, the tail made visible by asking for it.

    Uniforms are stratified over the first 2e-6 of the unit interval, where the tail tokens lie, so that tokens of
    probability 1e-9 are met 500 times in a million. Tolerance: the 0.9999 quantile of chi-square with 5 degrees."""
    tail = torch.tensor([1e-9, 1e-9, 1e-8, 1e-7, 1e-6], dtype=torch.float64)
    probabilities = torch.cat([tail, (1 - tail.sum())[None]])
    n, window = 1_000_000, 2e-6
    uniform = torch.rand(n, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * window
    drawn = categorical(probabilities.log().expand(n, -1), uniform)
    expected = n * torch.cat([tail, window - tail.sum()[None]]) / window
    seen = torch.bincount(drawn, minlength=6)
    assert float(((seen - expected).square() / expected).sum()) < 25.7


def test_draws_over_a_broad_distribution():
    """Chi-square with 999 degrees of freedom; mean 999, standard deviation 44.7, tolerance four of them."""
    logits = torch.randn(1000, dtype=torch.float64)
    n = 1_000_000
    random = torch.Generator().manual_seed(1)
    drawn = torch.cat(
        [
            categorical(logits.expand(10_000, -1), torch.rand(10_000, dtype=torch.float64, generator=random))
            for _ in range(100)
        ]
    )
    expected = n * torch.softmax(logits, 0)
    statistic = float(((torch.bincount(drawn, minlength=1000) - expected).square() / expected).sum())
    assert abs(statistic - 999) < 4 * (2 * 999) ** 0.5


def test_impossible_tokens_are_never_drawn():
    logits = torch.tensor([[-torch.inf, 0.0, -torch.inf, 0.0, -torch.inf]])
    edges = torch.tensor([0.0, 0.25, 0.5, 1 - 2**-53], dtype=torch.float64)
    assert categorical(logits.expand(4, -1), edges).tolist() == [1, 1, 3, 3]
