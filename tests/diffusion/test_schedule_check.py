"""What a method's noise does to the positions of a text, and simulations that hold little."""

import importlib

import pytest
import torch

from candi.base.errors import UserError
from candi.diffusion.embeddings import TokenEmbedding
from candi.diffusion.methods import CandiSettings, MdlmSettings, UdlmSettings
from candi.diffusion.methods.base import Method
from candi.diffusion.schedule_check import check_predictable, check_schedule, prediction


def _candi(**settings: object) -> Method:
    torch.manual_seed(0)
    return CandiSettings(**settings).build(TokenEmbedding(30, 8, True))  # type: ignore[arg-type]


def test_the_noise_of_a_method_over_time():
    rows, verdict = check_schedule(_candi(), torch.randint(30, (500,)), draws=20)
    assert [row.t for row in rows] == pytest.approx([index / 10 for index in range(11)])
    assert {(row.vocab_size, row.width) for row in rows} == {(30, 8)}
    assert rows[0].identifiable > 0.99 > rows[-1].identifiable  # no noise at the start
    assert rows[0].open == 0
    assert rows[-1].open > 0.99
    assert all(a.rank_of_schedule < b.rank_of_schedule for a, b in zip(rows, rows[1:], strict=False))
    assert verdict.sentence.startswith("Vocabulary 30")


def test_the_same_seed_gives_the_same_rows_and_only_some_positions_are_looked_at():
    tokens = torch.randint(30, (500,))
    assert check_schedule(_candi(), tokens, draws=10)[0] == check_schedule(_candi(), tokens, draws=10)[0]
    one = check_schedule(_candi(), torch.full((100,), 7), draws=10, most=4)[0]
    assert one == check_schedule(_candi(), torch.full((4,), 7), draws=10, most=4)[0]


def test_a_method_without_gaussian_noise_has_no_schedule_to_look_at():
    mdlm = MdlmSettings().build(TokenEmbedding(30, 8, True))
    with pytest.raises(UserError, match="MDLM has no Gaussian noise"):
        check_schedule(mdlm, torch.arange(30))
    assert prediction(mdlm, torch.arange(30)) == {"identifiable": pytest.approx(0.5), "rank": 0.5}
    with pytest.raises(UserError, match="predicts nothing of UDLM"):
        check_predictable(UdlmSettings().build(TokenEmbedding(30, 8)))
    with pytest.raises(UserError, match="no text"):
        prediction(mdlm, torch.arange(0))


def test_a_simulation_of_a_large_vocabulary_holds_little(monkeypatch):
    """50,257 tokens and 100 points in parts of a million numbers: no part is larger."""
    held = []
    module = importlib.import_module("candi.diffusion.identifiability.simulate")
    monkeypatch.setattr(module, "_HELD", 2**20)
    original = torch.Tensor.normal_

    def normal(self, *args, **kwargs):
        held.append(self.numel())
        return original(self, *args, **kwargs)

    monkeypatch.setattr(torch.Tensor, "normal_", normal)
    module.simulate(torch.tensor([0.2, 1.0]), 50_257, points=100)
    assert max(held) <= 2**20
    assert sum(held) == 100 * 50_257
