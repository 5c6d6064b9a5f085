"""Bounds are bounds: against the exact likelihood of small trained models, by enumeration."""

import itertools
import json
import math
import re
from functools import cache as once

import numpy as np
import pytest
import torch

import candi
from candi.base.errors import UserError
from candi.base.rng import Rng
from candi.cli import main
from candi.data.corpus import Piece
from candi.data.tokenizer import Tokenizer
from candi.diffusion.kernels import uniform
from candi.diffusion.methods import METHODS
from candi.diffusion.state import State, hidden
from candi.evaluation.likelihood import likelihood
from candi.nets.config import ModelConfig
from candi.nets.denoiser import Denoiser
from candi.nets.dit import DiTSettings
from candi.training.objective import DenoisingObjective
from tests.training.runs import train_here

pytestmark = pytest.mark.usefixtures("cache")
TRUNK = DiTSettings(width=16, blocks=1, heads=2, conditioning=8)
DATA = torch.tensor([[0, 1, 1], [1, 1, 0], [0, 0, 1], [1, 0, 0], [0, 1, 1], [0, 1, 1]])  # 3 tokens of 2 kinds


@once
def _trained(name: str, length: int = 3, steps: int = 60) -> candi.Model:
    """A tiny model, trained for a moment on six sequences."""
    torch.manual_seed(0)
    config = ModelConfig(2, length, name, METHODS[name](), TRUNK)
    denoiser = Denoiser.build(config)
    objective = DenoisingObjective(denoiser)
    optimizer = torch.optim.AdamW(denoiser.parameters(), lr=1e-2)
    data = DATA[:, :length].repeat(8, 1)
    for step in range(steps):
        objective(data, range(len(data)), len(data), Rng.from_seed(step)).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return candi.Model(denoiser, Tokenizer.characters([Piece("ab", True)]), config)


def _every(length: int) -> torch.Tensor:
    return torch.tensor(list(itertools.product((0, 1), repeat=length)))


def _bound(model: candi.Model, x: torch.Tensor, repeats: int = 400, **options: str) -> tuple[float, float]:
    """Nats of one sequence and the standard error, from many draws of t."""
    many = x[None].repeat(repeats, 1).numpy().astype(np.int64)
    result = likelihood(model, many, times=16, batch_size=repeats, **options)
    scale = math.log(2) * len(x)
    return result.bits_per_token * scale, (result.high - result.low) / 3.92 * scale


@torch.no_grad()
def _masked_likelihood(model: candi.Model, x: torch.Tensor) -> float:
    """log p(x) of masked diffusion in continuous time: one position at a time, in every order alike."""
    total = 0.0
    for order in itertools.permutations(range(len(x))):
        chance = 1.0
        known = torch.zeros(1, len(x), dtype=torch.bool)
        for i in order:
            log_p = model.denoiser(State(torch.ones(1), known, hidden(x[None], known))).log_probs()
            chance *= float(log_p[0, i, x[i]].exp())
            known = known.clone()
            known[0, i] = True
        total += chance / math.factorial(len(x))
    return math.log(total)


@torch.no_grad()
def _uniform_likelihoods(model: candi.Model, length: int, steps: int = 400) -> torch.Tensor:
    """log p(x) of every x under the ancestral sampler in many steps: products of transition matrices of all states."""
    method, states = model.denoiser.method, _every(length)
    count = len(states)
    moments = torch.linspace(1, 0, steps + 1)
    t, s = (m.repeat_interleave(count) for m in (moments[:-1], moments[1:]))  # every state at every time, at once
    now = states.repeat(steps, 1)
    p = model.denoiser(State(t, torch.zeros_like(now, dtype=torch.bool), now)).log_probs().exp()
    a_t, a_s = (method.alpha(m[:, None].expand(-1, length)) for m in (t, s))
    a_s = torch.where(s[:, None] > 0, a_s, torch.ones_like(a_s))  # the end is x0 itself
    each = uniform.posterior(now, p, a_t, a_s).double()  # [steps * states, length, 2]
    jumps = torch.stack([each.gather(-1, to.expand(len(now), -1)[..., None])[..., 0].prod(-1) for to in states], -1)
    spread = torch.full((count,), 1 / count, dtype=torch.float64)
    for jump in jumps.view(steps, count, count):
        spread = spread @ jump
    return spread.log()


def test_masked_bound_is_above_the_exact_likelihood():
    model = _trained("mdlm")
    gaps, total = [], 0.0
    for x in _every(3):
        bound, error = _bound(model, x)
        exact = _masked_likelihood(model, x)
        total += math.exp(exact)
        gaps.append(bound + exact)
        assert gaps[-1] > -4 * error
    assert max(gaps) < 1.0  # and not idle
    assert total == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("name", ["udlm", "duo"])
def test_uniform_bound_is_above_the_exact_likelihood(name):
    model = _trained(name, length=2)
    exact = _uniform_likelihoods(model, 2)
    assert float(exact.exp().sum()) == pytest.approx(1, abs=1e-5)
    gaps = []
    for x, log_p in zip(_every(2), exact.tolist(), strict=True):
        bound, error = _bound(model, x, repeats=1000)
        gaps.append(bound + log_p)
        assert gaps[-1] > -4 * error
    assert max(gaps) < 1.0


def test_left_to_right_is_exact():
    model = _trained("ar")
    with torch.no_grad():
        every = _every(3)
        state = model.denoiser.method.corrupt(every, torch.ones(8), Rng.from_seed(0))
        log_p = -model.denoiser.method.loss(model.denoiser(state), state, every).sum(-1)
    assert float(log_p.exp().sum()) == pytest.approx(1, abs=1e-5)
    result = likelihood(model, every.numpy())
    assert result.exact
    assert result.bits_per_token == pytest.approx(float(-log_p.mean()) / math.log(2) / 3, rel=1e-5)


def _sampled(model: candi.Model, n: int, **options: str) -> torch.Tensor:
    """The share of each sequence among n samples in many steps of the ancestral process."""
    samples = model.sample(n, steps=40, seed=1, batch_size=n, solver="ancestral", **options)
    code = 2 ** torch.arange(samples.shape[1])
    return torch.bincount((samples.cpu() * code).sum(-1), minlength=2 ** samples.shape[1]) / n


@pytest.mark.parametrize(
    ("name", "options"), [("candi", {}), ("candi", {"prior": "frequencies"}), ("onehot", {}), ("embedding", {})]
)
def test_the_bound_of_a_noisy_process_is_above_its_samples_likelihood(name, options):
    """p(x) by counting 5,000 samples, four standard errors of both."""
    model, n = _trained(name, length=2, steps=120), 5_000
    if options:
        model.denoiser.method.frequencies = DATA[:, 0].bincount(minlength=2)[None] / len(DATA)
    shares = _sampled(model, n, **options, **({"grid": "time"} if name != "candi" else {}))
    code = 2 ** torch.arange(2)
    gaps = []
    for x in _every(2):
        share = float(shares[int((x * code).sum())])
        bound, error = _bound(model, x, repeats=1000, **options)
        gaps.append(bound + math.log(share))
        assert gaps[-1] > -4 * (error + ((1 - share) / share / n) ** 0.5)
    assert max(gaps) < 2.0  # and not idle


def test_a_method_without_a_bound_is_refused_with_the_reason(monkeypatch):
    model = _trained("mdlm", steps=0)
    monkeypatch.setattr(type(model.denoiser.method), "bound", False)
    monkeypatch.setattr(type(model.denoiser.method), "why_no_bound", "it is none")
    with pytest.raises(UserError, match="MDLM has no likelihood bound: it is none"):
        likelihood(model, DATA.numpy())


def test_given_tokens_are_what_the_others_are_predicted_from():
    """With one token left out, masked diffusion reads it off the others at once: its bound is exact."""
    model, x0 = _trained("mdlm"), _every(3)
    for left_out in range(3):
        given = torch.ones(8, 3, dtype=torch.bool)
        given[:, left_out] = False
        with torch.no_grad():
            exact = model.denoiser(State(torch.ones(8), given, hidden(x0, given))).nll(x0)[:, left_out]
        for row in range(8):
            many = x0[row][None].repeat(400, 1).numpy()
            found = likelihood(model, many, given=given[row][None].repeat(400, 1).numpy(), times=16, batch_size=400)
            margin = (found.high - found.low) / 3.92 * 4 + 1e-6
            assert abs(found.bits_per_token - float(exact[row]) / math.log(2)) < margin
            assert (found.tokens, found.characters) == (400, 400)


def test_parts_sum_up_and_bytes_are_counted():
    """A letter of two bytes: half as many bits a byte as a character."""
    model = _trained("candi")
    model = candi.Model(model.denoiser, Tokenizer.characters([Piece("a\u00e9", True)]), model.config)
    found = likelihood(model, DATA.numpy(), times=4)
    assert set(found.parts) == {"tokens", "gaussian", "prior"}
    assert sum(found.parts.values()) == pytest.approx(found.bits_per_token)
    assert all(bits > 0 for bits in found.parts.values())
    ones = int(DATA.sum())
    assert (found.tokens, found.characters, found.bytes) == (18, 18, 18 + ones)
    assert found.per("character")[0] == pytest.approx(found.bits_per_token)
    assert found.per("byte")[0] == pytest.approx(found.bits_per_token * 18 / (18 + ones))
    assert found.per("byte")[1] < found.per("byte")[0] < found.per("byte")[2]


def test_bits_are_divided_by_the_bytes_of_the_same_sequences():
    """Rows with few open tokens count as much as they hold: all bits over all bytes, not a mean of ratios."""
    model = _trained("ar")
    x0, given = torch.tensor([[0, 1, 1], [1, 0, 0]]), torch.tensor([[True, True, False], [False, False, False]])
    found = likelihood(model, x0.numpy(), given=given.numpy())
    alone = [likelihood(model, x0[i : i + 1].numpy(), given=given[i : i + 1].numpy()) for i in range(2)]
    bits = [one.bits_per_token * one.tokens for one in alone]
    assert found.per("byte")[0] == pytest.approx(sum(bits) / 4)
    assert found.bits_per_token == pytest.approx((bits[0] / 1 + bits[1] / 3) / 2)
    residuals = [bits[0] - found.per("byte")[0] * 1, bits[1] - found.per("byte")[0] * 3]
    margin = 1.96 * float(np.std(residuals, ddof=1)) / math.sqrt(2) / 2
    assert found.per("byte")[2] - found.per("byte")[0] == pytest.approx(margin)


def test_the_interval_covers_the_truth():
    """Of 60 intervals from 32 sequences each, about 95% hold the mean over very many: at least 50 of them."""
    model = _trained("mdlm")
    random = np.random.default_rng(0)
    data = DATA.numpy()
    truth = likelihood(model, data[random.integers(6, size=6000)], times=8, batch_size=6000).bits_per_token
    held = 0
    for seed in range(60):
        result = likelihood(model, data[random.integers(6, size=32)], times=2, batch_size=32, seed=seed)
        held += result.low <= truth <= result.high
    assert held >= 50


@pytest.fixture(scope="module")
def run(tmp_path_factory, cache):
    return train_here(tmp_path_factory.mktemp("likelihood") / "run", steps=10, method="mdlm")


def test_the_command(run, tmp_path, capsys):
    main(["evaluate", str(run), "--data", "pydoc", "--sequences", "16", "--json"])
    record = json.loads(capsys.readouterr().out)
    assert record["method"] == "mdlm"
    assert record["low"] < record["bits_per_token"] < record["high"]
    assert 3 < record["bits_per_token"] < 9
    main(["evaluate", str(run), "--data", "pydoc", "--sequences", "16"])
    assert "at most" in capsys.readouterr().out
    train_here(tmp_path / "hybrid", steps=2)
    hybrid = ["evaluate", str(tmp_path / "hybrid"), "--data", "pydoc", "--sequences", "16"]
    main(hybrid)
    told = capsys.readouterr().out
    assert "at most" in told
    assert "bits per byte" in told
    assert re.search(r"of which prior [\d.]+, tokens [\d.]+, gaussian [\d.]+ bits per token", told)
    main(
        [
            "evaluate",
            str(tmp_path / "hybrid"),
            "--data",
            "pydoc",
            "--sequences",
            "16",
            "--prior",
            "frequencies",
            "--json",
        ]
    )
    record = json.loads(capsys.readouterr().out)
    assert record["bits_per_byte"] == pytest.approx(record["bits_per_token"] * record["tokens"] / record["bytes"])
    with pytest.raises(SystemExit) as exit:
        main(["evaluate", str(run), "--data", "pydoc", "--prior", "frequencies"])
    assert exit.value.code == 2
    assert "The bound of MDLM has no prior; leave out --prior" in capsys.readouterr().err


def test_one_sequence_has_no_interval_and_a_short_text_is_enough(run, tmp_path, capsys):
    (tmp_path / "short.txt").write_text("The assert statement.")  # 21 characters, 16 in a sequence
    main(["evaluate", str(run), "--data", str(tmp_path / "short.txt"), "--json", "--device", "cpu"])
    record = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert (record["low"], record["high"], record["sequences"]) == (None, None, 1)
    (tmp_path / "short.txt").write_text("The assert")
    with pytest.raises(SystemExit):
        main(["evaluate", str(run), "--data", str(tmp_path / "short.txt"), "--device", "cpu"])
    assert "too few for a sequence of 16; give more text" in capsys.readouterr().err


def test_the_numbers_by_hand():
    """-log2 p(x)/L left to right, its mean and 1.96 standard errors of it, whatever the batch."""
    model, x0 = _trained("ar", steps=5), _every(3)[:5]
    method = model.denoiser.method
    with torch.no_grad():
        state = method.corrupt(x0, torch.ones(5), Rng.from_seed(0))
        nll = method.loss(model.denoiser(state), state, x0)
    bits = (nll.double().sum(-1) / math.log(2) / 3).numpy()
    found = likelihood(model, x0.numpy(), times=4, batch_size=2)
    assert bits.std() > 0.01
    assert (found.exact, found.times, found.sequences) == (True, 1, 5)
    assert found.bits_per_token == pytest.approx(bits.mean(), rel=1e-6)
    margin = 1.96 * bits.std(ddof=1) / 5**0.5
    assert (found.high - found.bits_per_token, found.bits_per_token - found.low) == pytest.approx(
        [margin] * 2, rel=1e-4
    )
    masked, asked = _trained("mdlm", steps=0), []
    with masked.denoiser.register_forward_hook(lambda _, given, __: asked.append(given[0].t)):
        bound = likelihood(masked, x0.numpy(), times=4, batch_size=2)
    assert (bound.exact, bound.times, len(asked)) == (False, 4, 12)  # three batches
    assert [(4 * t).floor().unique().tolist() for t in asked] == [[0], [1], [2], [3]] * 3
    assert likelihood(model, x0[:2].numpy()).high < float("inf") == likelihood(model, x0[:1].numpy()).high
