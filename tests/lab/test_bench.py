"""The benchmark command at toy size: what it measures is real, how long it takes is not asked here."""

import json
from collections import Counter
from pathlib import Path

import pytest
import torch
from candi_lab.bench import guiding
from candi_lab.bench.ablations import ABLATIONS, CountingDenoiser, DenseHead, EverywhereDenoiser
from candi_lab.bench.limits import BARS
from candi_lab.bench.reference import Plain
from candi_lab.bench.training import model_flops
from candi_lab.cli import main
from candi_lab.report.performance import write_performance

from candi.base.rng import Rng
from candi.diffusion.methods import CandiSettings, MdlmSettings
from candi.nets.config import ModelConfig
from candi.nets.denoiser import Denoiser
from candi.nets.dit import DiTSettings
from candi.training.objective import DenoisingObjective

TOY = ["--size", "toy", "--vocab-size", "300", "--repeats", "1", "--device", "cpu"]


def _bench(kind: str, folder: Path, capsys, *flags: str) -> dict:
    out = folder / f"cpu-{kind}.json"
    grows = ["--growth", "false"] if kind in ("train", "sample") else []
    main(["bench", kind, *TOY, *grows, "--out", str(out), *flags])
    assert "tokens/s" in capsys.readouterr().out
    return json.loads(out.read_text())


def test_training_is_measured_against_the_reference_and_mdlm(tmp_path, capsys):
    found = _bench("train", tmp_path, capsys)
    whats = {row["what"] for row in found["rows"]}
    ideas = {"head at every position", "dense cross-entropy", "optimizer parameter by parameter"}
    kinds = {"candi", "mdlm", "plain reference", *(f"with {idea}" for idea in ideas)}
    assert {f"{kind}, batch 2" for kind in kinds} <= whats
    assert found["findings"]["compilations in 10 steps, batch 2"] == 0
    assert found["findings"]["plain reference / candi, batch 2"] > 0
    assert all(row["milliseconds"] > 0 and row["tokens_per_second"] > 0 for row in found["rows"])
    assert {"device", "torch", "python", "candi"} <= found["machine"].keys()
    assert (found["settings"]["dtype"], found["settings"]["vocab_size"]) == ("float32", 300)
    write_performance(tmp_path, tmp_path / "page.md")
    page = (tmp_path / "page.md").read_text()
    assert "## Training on " in page
    assert "| The head runs at open positions only | " in page
    assert f"| candi, batch 2 | 2 | {found['rows'][0]['milliseconds']:,.1f} | " in page


def test_sampling_is_measured_and_drawn(tmp_path, capsys):
    pytest.importorskip("transformers")
    found = _bench("sample", tmp_path, capsys, "--most-steps", "8")
    kinds = {row["kind"]: row for row in found["rows"] if row.get("steps") in (16, None)}
    assert kinds.keys() == {
        "candi, approximate", "candi, exact", "mdlm", "mdlm, drawing at every open position",
        "plain reference, approximate", "plain reference, exact", "autoregressive, ours",
        "autoregressive, a cache that grows (transformers)", "autoregressive, a cache of fixed size (transformers)",
    }  # fmt: skip
    assert {row["steps"] for row in found["rows"] if row["kind"] == "mdlm"} == {8, 16}
    fastest = max(row["tokens_per_second"] for kind, row in kinds.items() if kind.startswith("autoregressive"))
    level = found["findings"]["steps at which candi approximate is as fast as the fastest autoregression"]
    # at 16 steps; rates are rounded to whole tokens, the finding to four digits
    assert level == pytest.approx(16 * kinds["candi, approximate"]["tokens_per_second"] / fastest, rel=1e-3, abs=1e-3)
    assert all((tmp_path / f"cpu-sample.{ending}").stat().st_size > 1000 for ending in ("svg", "png"))


def test_what_has_a_bar_is_measured(tmp_path, capsys):
    """At toy size no share of a bar is told, and a measurement that fails does not stop the others."""
    found = _bench("limits", tmp_path, capsys)
    assert {row["what"] for row in found["rows"]} == BARS.keys() - {"training, batch 128, 8-bit products"}
    assert not [name for name in found["findings"] if name.startswith(("failed", "share of the bar"))]


def test_the_reference_is_candi():
    """On a text of one token its samples are soon that token: 0.7 of them at least, where chance would give 0.2."""
    torch.manual_seed(0)
    model = Plain(5, DiTSettings(32, 2, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    x0 = torch.full((16, 8), 3)
    for _ in range(60):
        model.loss(x0).backward()
        optimizer.step()
        optimizer.zero_grad()
    for exact in (False, True):
        assert float((model.sample(4, 8, 4, exact) == 3).double().mean()) > 0.7


def test_an_ablation_changes_the_time_and_not_the_loss():
    """But for the head at every position, whose loss is also counted where the token is known."""
    config = ModelConfig(50, 8, "candi", CandiSettings(), DiTSettings(16, 1, 2, conditioning=8))
    x0 = torch.randint(50, (4, 8))

    def losses(kind: type[Denoiser], head: type | None = None) -> torch.Tensor:
        torch.manual_seed(0)
        denoiser = kind.build(config)
        if head is not None:
            denoiser.head = head(16, 50)
        torch.nn.init.normal_(denoiser.head.weight, generator=torch.Generator().manual_seed(1))
        return DenoisingObjective(denoiser)(x0, range(4), 4, Rng.from_seed(0, x0.device))

    plain = losses(Denoiser)
    assert torch.equal(losses(CountingDenoiser), plain)
    assert torch.allclose(losses(Denoiser, DenseHead), plain, atol=1e-5)
    everywhere = losses(EverywhereDenoiser)
    assert torch.allclose(everywhere[plain != 0], plain[plain != 0], atol=1e-5)
    assert bool((everywhere != 0).all())
    assert bool((plain == 0).any())
    assert len({one.name for one in ABLATIONS}) == len(ABLATIONS)


def test_flops_are_those_of_the_matrix_products():
    """Counted by torch on the trunk and a head at every position: forward and backward."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    trunk = DiTSettings(width=64, blocks=3, heads=2, conditioning=8)
    denoiser = Denoiser.build(ModelConfig(100, 32, "mdlm", MdlmSettings(), trunk))
    x0 = torch.randint(100, (2, 32))
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):  # which it counts on a CPU too
        features = denoiser.features(torch.ones(2), torch.zeros_like(x0, dtype=torch.bool), x0, None, None, None)
        torch.nn.functional.linear(features, denoiser.head.weight).sum().backward()
    assert counter.get_total_flops() == pytest.approx(64 * model_flops(trunk, 100, 32, 1.0), rel=0.02)


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["bench", "trian"], "train"),
        (["bench", "train", "--vocab-size", "1"], "vocabulary of at least 2"),
        (["bench", "train", "--out", "."], "is a folder"),
        (["bench", "sample", "--sizes", "toy"], "--size"),
    ],
)
def test_mistakes_are_one_sentence(flags, says, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(flags)
    assert stopped.value.code == 2
    assert says in capsys.readouterr().err


def test_guidance_is_measured_for_every_method_that_can_be_guided(tmp_path, monkeypatch, capsys):
    asked, real = Counter(), guiding.guide_for

    def counted(method, classifier, weight):
        def log_probability(x, t):
            asked[type(method).__name__] += 1
            return classifier(x, t)

        return real(method, log_probability, weight)

    monkeypatch.setattr(guiding, "guide_for", counted)
    main(["bench", "guide", "--size", "toy", "--repeats", "1", "--device", "cpu", "--out", str(tmp_path / "g.json")])
    calls = 2 * 2  # once to warm up, once timed, 2 steps each
    kinds = ("transformer", "recurrent", "bag")
    assert asked.pop("Continuous") == 2 * calls * len(kinds)  # in one-hot space and among embeddings
    assert asked == {"CANDI": calls * len(kinds), "MDLM": calls, "UDLM": calls, "DUO": calls}
    found = json.loads((tmp_path / "g.json").read_text())
    kinds_found = {row["kind"] for row in found["rows"]}
    assert {"candi", *(f"candi, gradient of a classifier ({kind})" for kind in kinds), "mdlm"} <= kinds_found
    assert not any(kind.startswith("ar") for kind in kinds_found)  # nothing guides it
    assert found["settings"]["length"] == 32  # a molecule's, whatever the size
    assert found["findings"]["mdlm, discrete guidance (transformer) / mdlm alone, 2 steps"] > 0
    assert "tokens/s" in capsys.readouterr().out


def test_preparing_is_measured_by_kind_cores_and_size(tmp_path, capsys):
    out = tmp_path / "cpu-prepare.json"
    main(["bench", "prepare", "--megabytes", "1", "--sizes", "1", "--cores", "1", "--vocab-size", "300",
          "--shared", "true", "--out", str(out)])  # fmt: skip
    found = json.loads(out.read_text())
    assert [row["what"] for row in found["rows"]] == ["txt", "jsonl", "parquet", "txt, by size"]
    assert all(row["mb_per_second"] > 0 and row["peak_gb"] > 0.1 for row in found["rows"])
    stored = [row["stored_mb"] for row in found["rows"]]
    assert max(stored) < 1.3 * min(stored), "the same text in every kind of file"
    assert stored[0] == pytest.approx(2 * 10**6 / 1.7 / 1e6, rel=0.5), "two bytes a token"
    hours = found["findings"]["OpenWebText (38 GB of text), hours on 1 cores"]
    assert hours == pytest.approx(38e3 / found["rows"][1]["mb_per_second"] / 3600, rel=1e-3)
    write_performance(tmp_path, tmp_path / "page.md")
    page = (tmp_path / "page.md").read_text()
    assert "## Preparing on " in page
    assert "Others used the machine at the same time." in page
    assert f"| jsonl | 1 | 1 | {found['rows'][1]['mb_per_second']:.1f} | " in page


@pytest.mark.parametrize(
    ("flags", "says"),
    [(["--sizes", "a,b"], "whole numbers"), (["--cores", "0"], "whole numbers"), (["--megabytes", "0"], "at least 1")],
)
def test_sizes_of_preparing_are_numbers(flags, says, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["bench", "prepare", *flags])
    assert stopped.value.code == 2
    assert says in capsys.readouterr().err


def test_blocks_are_measured_against_left_to_right_and_the_window(tmp_path, capsys):
    found = _bench("blocks", tmp_path, capsys)
    whats = {row["what"] for row in found["rows"]}
    assert {"autoregressive", "mdlm, the window at once, 16 steps", "mdlm, blocks of 4, 4 steps each"} <= whats
    assert found["findings"]["mdlm, blocks of 4, 4 steps each / autoregressive, tokens a second, batch 1"] > 0
    write_performance(tmp_path, tmp_path / "page.md")
    assert "## Writing in blocks on " in (tmp_path / "page.md").read_text()
