"""Identity 6: closed forms against 30-digit values, against simulation and against each other."""

import math
from dataclasses import replace

import pytest
import torch

from candi.base.errors import UserError
from candi.base.rng import Rng
from candi.diffusion import identifiability as ident
from candi.diffusion.embeddings import TokenEmbedding
from candi.diffusion.methods import CandiSettings, MdlmSettings, OneHotSettings
from candi.diffusion.schedule_check import check_schedule
from candi.diffusion.spaces import SPACES
from tests.diffusion.vectors import RANK, RHO, SIGMA_OF_RANK


@pytest.mark.parametrize(("size", "sigma"), RHO)
def test_corruption_agrees_with_the_vectors(size, sigma):
    expected = RHO[size, sigma]
    if expected > 1e-12:
        assert float(ident.corruption(sigma, size)) == pytest.approx(expected, rel=1e-9, abs=0)
    else:
        assert float(ident.corruption(sigma, size)) == pytest.approx(expected, rel=0.02, abs=0)


def test_rank_and_its_inverse_agree_with_the_vectors():
    for sigma, expected in RANK.items():
        assert float(ident.rank(sigma)) == pytest.approx(expected, rel=1e-9, abs=0)
    for rank, expected in SIGMA_OF_RANK.items():
        assert float(ident.sigma_of_rank(rank)) == pytest.approx(expected, rel=1e-9)


def test_two_tokens_have_one_rank():
    """For V = 2 rho and r are the same event, however rare: down to 1e-280."""
    sigma = torch.logspace(math.log10(0.02), 3, 60, dtype=torch.float64)
    torch.testing.assert_close(ident.corruption(sigma, 2), ident.rank(sigma), rtol=1e-9, atol=1e-280)


def test_from_nothing_to_chance_for_every_vocabulary():
    """Monotone in sigma and V; no noise leaves the token, endless noise leaves chance: 1 - 1/V."""
    sigma = torch.logspace(-2, 3, 80, dtype=torch.float64)
    before = torch.zeros_like(sigma)
    for size in (2, 27, 50_257, 1_000_000):
        rho = ident.corruption(sigma, size)
        assert (rho.diff() >= -1e-15).all()
        assert (rho >= before - 1e-15).all()
        assert float(rho[0]) == 0
        assert float(ident.corruption(1e6, size)) == pytest.approx(1 - 1 / size, rel=1e-4)
        torch.testing.assert_close(rho + ident.survival(sigma, size), torch.ones_like(rho))
        before = rho


def test_inverse_and_gradients():
    rho = torch.tensor([1e-9, 1e-3, 0.1, 0.5, 0.9], dtype=torch.float64, requires_grad=True)
    for size in (27, 50_257):
        sigma = ident.sigma_of_corruption(rho, size)
        torch.testing.assert_close(ident.corruption(sigma.detach(), size), rho.detach(), rtol=1e-9, atol=0)
        (slope,) = torch.autograd.grad(sigma.sum(), rho)
        at = sigma.detach().requires_grad_()
        (there,) = torch.autograd.grad(ident.corruption(at, size).sum(), at)
        torch.testing.assert_close(slope, 1 / there)
    sigma = torch.tensor([0.2, 0.7, 3.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda s: ident.corruption(s, 500), sigma)
    assert torch.autograd.gradcheck(ident.rank, sigma)
    assert ident.corruption(sigma.detach().view(3, 1), 5).shape == (3, 1)


@pytest.mark.parametrize("size", [5, 50, 500, 50_000])
def test_closed_forms_are_within_four_standard_errors_of_simulation(size):
    """At every one of 11 noise levels, sigma^2 from 0.1 to 10; 22 comparisons of 4 errors: chance 1e-3.

    Errors are those that the formulas predict for rho (binomial); for r those seen, but not below what independent
    entries would have: a rare event that was not seen has an error all the same."""
    points = 5000 if size < 1000 else 1000
    sigma = torch.logspace(-1, 1, 11, dtype=torch.float64).sqrt()
    rho, r, seen = ident.corruption(sigma, size), ident.rank(sigma), ident.simulate(sigma, size, points)
    corruption_error = ((rho * (1 - rho)).clamp(min=1e-30) / points).sqrt()
    rank_error = torch.maximum(seen.rank_error, (r * (1 - r) / (points * (size - 1))).sqrt())
    assert ((rho - seen.corruption).abs() < 4 * corruption_error).all()
    assert ((r - seen.rank).abs() < 4 * rank_error).all()


def test_a_state_that_is_noisy_already():
    """Against simulation, four standard errors; from no noise at a one-hot vector it is the closed form itself."""
    torch.manual_seed(0)
    onehot = torch.eye(30, dtype=torch.float64)[4]
    token = torch.tensor(4)
    torch.testing.assert_close(ident.corruption_from(onehot, token, 0.0, 0.6), ident.corruption(0.6, 30))
    start = onehot + 0.3 * torch.randn(30, dtype=torch.float64)
    added, n = math.sqrt(0.7**2 - 0.3**2), 40_000
    seen = (start + added * torch.randn(n, 30, dtype=torch.float64)).argmax(-1) != 4
    expected = float(ident.corruption_from(start, token, 0.3, 0.7))
    assert 0.05 < expected < 0.95
    assert abs(float(seen.double().mean()) - expected) < 4 * math.sqrt(expected * (1 - expected) / n)
    found = ident.simulate_from(start, 4, 0.3, 0.7, n)
    assert abs(float(found.corruption) - expected) < 4 * float(found.corruption_error)
    # the paper's sigma_t^2 instead of the added variance is another number
    assert abs(float(ident.corruption_from(start, token, 0.0, 0.7)) - expected) > 6 * math.sqrt(0.25 / n)


def _printed(table, i, j, sigma):
    """The dot-product win rate as the paper prints it."""
    own, other = table[i], table[j]
    return float(torch.special.ndtr(-(own @ own - own @ other) / (sigma * (own - other).square().sum())))


@pytest.mark.parametrize("measure", ["dot", "l2"])
def test_win_rate_against_simulation(measure):
    """Four standard errors of 40,000 draws, for vectors of unequal length. The formula as printed fails by dozens."""
    torch.manual_seed(1)
    table = torch.randn(6, 8, dtype=torch.float64)
    n, farthest = 40_000, 0.0
    for i, j in ((0, 1), (2, 3), (4, 5)):
        for sigma in (0.7, 2.0):
            expected = float(ident.win_rate(table, i, j, sigma, measure))
            seen, error = ident.simulate_win_rate(table[i], table[j], sigma, n, measure)
            assert abs(seen - expected) < 4 * max(error, math.sqrt(expected * (1 - expected) / n))
            farthest = max(farthest, abs(seen - _printed(table, i, j, sigma)) / max(error, 1e-4))
    assert measure == "l2" or farthest > 24


def test_measures_agree_for_equal_lengths():
    table = torch.nn.functional.normalize(torch.randn(5, 7, dtype=torch.float64), dim=-1)
    pairs = torch.tensor([0, 1, 2]), torch.tensor([3, 4, 1])
    rates = [ident.win_rate(table, *pairs, 0.8, measure) for measure in ("dot", "l2")]
    torch.testing.assert_close(*rates)


def test_embedding_measures_over_a_table():
    """Sums over all others are those of single win rates, in parts of any size; one-hot vectors give back r."""
    torch.manual_seed(2)
    table, tokens = torch.randn(40, 6, dtype=torch.float64), torch.tensor([3, 7])
    sigma = torch.tensor([0.5, 1.5])
    for measure in ("dot", "l2"):
        others = [torch.tensor([j for j in range(40) if j != i]) for i in (3, 7)]
        rates = torch.stack(
            [
                torch.stack([ident.win_rate(table, i, j, s, measure) for i, j in zip((3, 7), others, strict=True)])
                for s in sigma.tolist()
            ]
        )
        torch.testing.assert_close(ident.rank_embedding(table, tokens, sigma, measure), (1 - rates).mean(-1))
        product = ident.corruption_embedding(table, tokens, sigma, "product", measure)
        torch.testing.assert_close(product, 1 - rates.prod(-1))
        seen = ident.simulate_table(table, tokens, sigma, 20_000, measure)
        assert ((seen.rank - (1 - rates).mean(-1)).abs() < 4 * seen.rank_error).all()
    onehot = ident.rank_embedding(torch.eye(12), torch.arange(12), sigma)
    torch.testing.assert_close(onehot, ident.rank(sigma)[:, None].expand(-1, 12))


def test_the_product_form_is_an_upper_bound_on_one_hot_vectors():
    """And a loose one: at V = 50,257 and sigma = 0.2 it says 0.99996 where the truth is 0.229."""
    for size in (5, 50, 500):
        sigma = torch.tensor([0.2, 0.5, 1.0])
        product = ident.corruption_embedding(torch.eye(size), torch.tensor([0]), sigma, "product")[:, 0]
        assert (product >= ident.corruption(sigma, size)).all()
    omega = float(ident.win_rate(torch.eye(2), 0, 1, 0.2))
    assert 1 - omega**50_256 == pytest.approx(0.99996, abs=1e-5)
    assert float(ident.corruption(0.2, 50_257)) == pytest.approx(0.229, abs=5e-4)


def test_what_the_network_sees():
    """With room for all tokens one-hot noise means what it says; through a narrow W it hides nearly everything."""
    sigma = torch.tensor([0.3, 1.0])
    wide = torch.randn(6, 10, dtype=torch.float64)
    expected = ident.rank(sigma)[:, None].expand(-1, 6)
    torch.testing.assert_close(ident.network_rank(wide, sigma, "onehot"), expected)
    narrow = torch.nn.functional.normalize(torch.randn(3000, 40, dtype=torch.float64), dim=-1)
    seen = ident.network_rank(narrow, sigma, "projected", torch.arange(20)).mean(-1)
    average = torch.special.ndtr(-math.sqrt(2 * 40 / 3000) / (2 * sigma))  # m^2 = 2 D/V
    torch.testing.assert_close(seen, average.double(), rtol=0.02, atol=0)
    isotropic = ident.network_rank(narrow, sigma, "embedding", torch.arange(20))
    torch.testing.assert_close(isotropic, ident.rank_embedding(narrow, torch.arange(20), sigma, "l2"))


def test_what_the_network_sees_is_what_the_best_test_can_do():
    """Noise of the space itself, through a crooked table; the likelihood ratio, written out; 40,000 draws a token and
    four standard errors. And the same by `simulate_network`."""
    torch.manual_seed(3)
    embedding = TokenEmbedding(9, 4).double()
    embedding.weight.data *= torch.tensor([1.0, 1.0, 0.2, 0.05])  # directions of unequal length
    rows, sigma, n = embedding.rows().detach(), 0.8, 40_000
    space = SPACES["onehot"](embedding)
    noise = space.hidden(space.noise(torch.Size((n, 1)), Rng.from_seed(0)))[:, 0].detach()
    precision = torch.linalg.inv(rows.T @ rows)
    lost = []
    for j in range(1, 9):
        difference, middle = rows[0] - rows[j], (rows[0] + rows[j]) / 2
        lost.append(((rows[0] + sigma * noise - middle) @ precision @ difference < 0).double())
    beaten = torch.stack(lost).mean(0)
    expected = float(ident.network_rank(rows, sigma, "onehot", torch.tensor(0)))
    assert abs(float(beaten.mean()) - expected) < 4 * float(beaten.std()) / n**0.5
    seen = ident.simulate_network(rows, torch.tensor(0), sigma, "onehot", n)
    assert abs(float(seen.rank) - expected) < 4 * float(seen.rank_error)
    assert abs(expected - float(ident.network_rank(rows, sigma, "embedding", torch.tensor(0)))) > 0.02


def test_the_length_of_a_table_s_directions_does_not_matter():
    """One-hot noise goes through W with the signal: a direction a million times smaller carries as much."""
    table = torch.randn(30, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    scaled = table * torch.tensor([1.0, 1e-2, 1e-4, 1e-6])
    found = [ident.network_rank(t, torch.tensor([0.1, 0.5]), "onehot") for t in (table, scaled)]
    torch.testing.assert_close(*found, rtol=1e-6, atol=0)


def test_equal_vectors_are_a_toss_up_and_gradients_stay_numbers():
    table = torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    table[4] = table[1]
    sigma = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    for measure in ("dot", "l2"):
        rates = ident.win_rate(table, torch.tensor([1, 1, 1]), torch.tensor([4, 1, 0]), sigma, measure)
        assert rates[:2].tolist() == [0.5, 1.0]
        (slope,) = torch.autograd.grad(rates.sum(), sigma)
        assert bool(slope.isfinite())
        rank = ident.rank_embedding(table, torch.tensor([1]), sigma, measure)
        product = ident.corruption_embedding(table, torch.tensor([1]), sigma, "product", measure)
        assert bool(rank.isfinite().all())
        assert float(product.detach()) >= 0.5
    learned = table.clone().requires_grad_()
    (slope,) = torch.autograd.grad(ident.network_rank(learned, 0.5, "onehot").sum(), learned)
    assert bool(slope.isfinite().all())


def test_noise_and_tokens_of_any_shape():
    table, tokens = torch.randn(7, 3), torch.tensor([[0, 1, 2], [3, 4, 5]])
    sigma = torch.rand(2, 2) + 0.5
    whole = ident.rank_embedding(table, tokens, sigma)
    assert whole.shape == (2, 2, 2, 3)
    torch.testing.assert_close(whole[1, 0, 1, 2], ident.rank_embedding(table, torch.tensor(5), float(sigma[1, 0])))
    assert ident.network_rank(table, 0.5, "embedding").shape == (7,)
    assert ident.simulate(0.5, 10, 50).rank.shape == ()
    assert ident.simulate_table(table, tokens, sigma, 10).corruption.shape == (2, 2, 2, 3)
    assert ident.corruption_from(torch.eye(4)[0], torch.tensor(0), 0.0, torch.rand(3) + 0.1).shape == (3,)
    assert ident.corruption(torch.rand(30, 60) + 0.1, 5).shape == (30, 60)


def test_far_out_the_inverse_still_returns():
    """sigma = 1,000 at V = 1,000,000, where rho is a millionth from chance; and a rho of which nothing is left."""
    for size, sigma in ((1_000_000, 1e3), (50_257, 30.0), (2, 1e-1)):
        assert float(ident.sigma_of_corruption(ident.corruption(sigma, size), size)) == pytest.approx(sigma, rel=1e-5)
    assert 0 < float(ident.sigma_of_corruption(1e-320, 50_257)) < 0.1
    assert float(ident.corruption(1e-2, 10) + ident.survival(1e-2, 10)) == pytest.approx(1, abs=1e-14)


_TOKENS = torch.randint(2000, (500,), generator=torch.Generator().manual_seed(0))


def _checked(settings, size: int, width: int, draws: int = 50, most: int = 16):
    torch.manual_seed(0)
    return check_schedule(settings.build(TokenEmbedding(size, width)), _TOKENS % size, draws=draws, most=most)


def test_schedules_that_fit_and_that_do_not():
    _, verdict = _checked(CandiSettings(space="projected"), 2000, 16)
    assert verdict.dissonant
    assert "noise in the embedding space" in verdict.sentence
    rows, verdict = _checked(CandiSettings(space="embedding"), 2000, 64)
    assert verdict.fits, verdict.sentence
    assert rows[0].identifiable > 0.99 > 0.1 > rows[-1].identifiable
    expected = torch.linspace(0.05, 0.25, 11).tolist()
    assert [row.rank_of_schedule for row in rows] == pytest.approx(expected, rel=1e-5)
    _, verdict = _checked(CandiSettings(space="embedding", rank_min=1e-6, rank_max=1e-3), 2000, 64)
    assert (verdict.fits, verdict.dissonant) == (False, False)
    assert "too little noise" in verdict.sentence
    with pytest.raises(UserError, match="no Gaussian noise"):
        _checked(MdlmSettings(), 20, 8)


def test_the_suggested_range_fits():
    """The suggestion taken, and checked again."""
    for settings, size, width in (
        (CandiSettings(space="projected", rank_min=0.3, rank_max=0.45), 200, 64),
        (OneHotSettings(rank_min=0.42, rank_max=0.48), 27, 64),
    ):
        _, verdict = _checked(settings, size, width)
        assert not verdict.fits
        after = (verdict.sentence.split(f"{word} ")[1].split()[0] for word in ("rank_min", "rank_max"))
        low, high = (float(text.strip(",.);")) for text in after)
        _, verdict = _checked(replace(settings, rank_min=low, rank_max=high), size, width)
        assert verdict.fits, verdict.sentence


def test_where_no_range_helps_it_says_so():
    """Continuous diffusion on a large vocabulary: what the theory is about."""
    _, verdict = _checked(OneHotSettings(), 1500, 1536, draws=25, most=8)
    assert verdict.dissonant
    assert "no range of noise helps here without a mask" in verdict.sentence


@pytest.mark.parametrize(
    "call",
    [
        lambda: ident.corruption(-1.0, 10),
        lambda: ident.corruption(1.0, 1),
        lambda: ident.rank(0.0),
        lambda: ident.sigma_of_rank(0.5),
        lambda: ident.sigma_of_rank(0.0),
        lambda: ident.sigma_of_corruption(0.95, 10),
        lambda: ident.corruption_from(torch.zeros(4), torch.tensor(0), 2.0, 1.0),
        lambda: ident.corruption_from(torch.zeros(2, 4), torch.tensor(0), 0.0, 1.0),
        lambda: ident.corruption_from(torch.zeros(4), torch.tensor(9), 0.0, 1.0),
        lambda: ident.corruption_from(torch.zeros(1), torch.tensor(0), 0.0, 1.0),
        lambda: ident.win_rate(torch.eye(3), 0, 7, 0.5),
        lambda: ident.win_rate(torch.eye(3), 0, -1, 0.5),
        lambda: ident.simulate_win_rate(torch.ones(3), torch.ones(4), 0.5, 10, "dot"),
        lambda: ident.network_rank(torch.full((3, 2), torch.nan), 0.5, "onehot"),
        lambda: ident.rank_embedding(torch.zeros(1, 3), torch.tensor([0]), torch.tensor([1.0])),
        lambda: ident.rank_embedding(torch.eye(3), torch.tensor([3]), torch.tensor([1.0])),
        lambda: ident.simulate(torch.tensor([1.0]), 10, points=1),
    ],
)
def test_bad_input_is_refused(call):
    with pytest.raises(UserError):
        call()
