"""The bound over ranges, paths and priors of noise, and what is recommended from it."""

import json

import numpy as np
import pytest

from candi.cli import main
from candi.data.corpus import Corpus
from candi.data.datasets import load_sequences
from candi.diffusion.methods.candi import PATHS, CandiSettings
from candi.evaluation.likelihood import likelihood
from candi.evaluation.tune_noise import Noise, grid, tune_noise
from candi.hub.loading import load
from tests.training.runs import train_here

pytestmark = pytest.mark.usefixtures("cache")


@pytest.fixture(scope="module")
def run(tmp_path_factory, cache):
    out = tmp_path_factory.mktemp("noise") / "run"
    return train_here(out, steps=30, **{"candi.independent": True}).parent.parent


def test_ranges_lie_between_the_ranks_and_the_runs_own_comes_first():
    settings = CandiSettings(rank_min=0.1, rank_max=0.3)
    found = grid(settings, frequencies=False)
    assert found[0] == Noise(0.1, 0.3)
    assert len(found) == len(set(found)) == 10  # pairs of five ranks
    assert {noise.path for noise in found} == {"diagonal"}
    both = grid(CandiSettings(rank_min=0.1, rank_max=0.3, independent=True), True, (0.2, 0.4))
    assert both[0] == Noise(0.1, 0.3)
    assert {(noise.low, noise.high) for noise in both[1:]} == {(0.2, 0.4)}
    assert len(both) == 1 + len(PATHS) * 2


def test_ranks_are_even_in_the_time_of_the_runs_own_noise():
    path = Noise(0.15, 0.4, "early").along(CandiSettings(rank_min=0.1, rank_max=0.3))
    assert (path.power, path.first, path.last) == pytest.approx((2.0, 0.25, 1.5))


def test_each_is_the_bound_of_its_process_and_differences_are_paired(run):
    model = load(run, "cpu")
    data = load_sequences(Corpus("pydoc"), model.tokenizer, model.config.length, rows=False)
    sequences = data.first(24)
    noises = [Noise(0.05, 0.25), Noise(0.05, 0.25, prior="frequencies"), Noise(0.1, 0.2, "late")]
    found = list(tune_noise(model, sequences, noises, times=2))
    for one in found:
        alone = likelihood(
            model, sequences, times=2, path=one.noise.along(model.config.settings), prior=one.noise.prior
        )
        assert one.bits == pytest.approx(alone.bits_per_token, rel=1e-6)
        assert dict(one.parts) == pytest.approx(alone.parts, rel=1e-6)
        assert one.more == pytest.approx(one.bits - found[0].bits, abs=1e-9)
    assert (found[0].more, found[0].margin) == (0, 0)
    assert found[0].parts["gaussian"] == found[1].parts["gaussian"]
    assert found[0].parts["prior"] != found[1].parts["prior"]
    assert 0 < found[2].margin < np.inf


def test_the_command_recommends_the_smallest(run, tmp_path, capsys):
    tune = ["tune-noise", str(run), "--data", "pydoc", "--sequences", "8", "--times", "1", "--device", "cpu"]
    main([*tune, "--json", "--ranks", "0.05,0.15,0.25"])
    told = capsys.readouterr()
    rows = [json.loads(line) for line in told.out.splitlines()]
    assert len(rows) == 3 * 3 * 2
    best = min(rows, key=lambda row: row["bits"])["noise"]
    assert f"--candi.rank-min {best['low']:g} --candi.rank-max {best['high']:g}" in told.err
    assert ("--candi.path" in told.err) == (best["path"] != "diagonal")
    assert ("frequencies" in told.err) == (best["prior"] == "frequencies")
    main([*tune, "--ranks", "0.05,0.25"])
    told = capsys.readouterr().out
    assert "the run's own; tokens" in told
    assert "Smallest bound" in told
    train_here(tmp_path / "masked", steps=2, method="mdlm")
    for wrong, complaint in (
        (["tune-noise", str(tmp_path / "masked"), *tune[2:]], "mdlm has no ranks and paths of noise"),
        ([*tune, "--ranks", "0.1,0.6"], "Ranks lie between 0 and 0.5"),
        ([*tune, "--ranks", "0.1"], "at least two --ranks"),
        ([*tune, "--times", "0"], "At least 1 sequence, 1 time"),
    ):
        with pytest.raises(SystemExit) as exit:
            main(wrong)
        assert exit.value.code == 2
        assert complaint in capsys.readouterr().err
