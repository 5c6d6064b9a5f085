"""The benchmark command at toy size: what it measures is real, how long it takes is not asked here."""

import json
import subprocess
import sys
from collections import Counter

import pytest
import torch

from candi.benchmark import guiding
from candi.benchmark.reference import Plain
from candi.benchmark.training import model_flops
from candi.cli import main
from candi.nets.transformer import TrunkSettings

TOY = ["--size", "toy", "--vocab_size", "300", "--repeats", "1", "--growth", "false", "--device", "cpu"]


def _bench(kind: str, folder, *flags: str) -> dict:
    out = folder / f"{kind}.json"
    done = subprocess.run(
        [sys.executable, "-m", "candi", "bench", kind, *TOY, "--out", str(out), *flags], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "tokens/s" in done.stdout
    return json.loads(out.read_text())


def test_training_is_measured_against_the_reference_and_mdlm(tmp_path):
    found = _bench("train", tmp_path)
    whats = {row["what"] for row in found["rows"]}
    assert {"candi, batch 2", "mdlm, batch 2", "plain reference, batch 2", "with dense cross-entropy, batch 2"} <= whats
    assert found["findings"]["compilations in 10 steps, batch 2"] == 0
    assert found["findings"]["plain reference / candi, batch 2"] > 0
    assert all(row["milliseconds"] > 0 and row["tokens_per_second"] > 0 for row in found["rows"])
    assert {"device", "torch", "python", "candi"} <= found["machine"].keys()
    assert (found["settings"]["dtype"], found["settings"]["vocab_size"]) == ("float32", 300)


def test_sampling_is_measured_and_drawn(tmp_path):
    pytest.importorskip("transformers")
    found = _bench("sample", tmp_path, "--most_steps", "32")
    kinds = {row["kind"]: row for row in found["rows"] if row.get("steps") in (16, None)}
    assert kinds.keys() == {
        "candi, approximate", "candi, exact", "mdlm", "mdlm, drawing at every open position",
        "plain reference, approximate", "plain reference, exact", "autoregressive, KV cache (transformers)",
    }  # fmt: skip
    assert {row["steps"] for row in found["rows"] if row["kind"] == "mdlm"} == {8, 16, 32}
    assert all((tmp_path / f"sample.{ending}").stat().st_size > 1000 for ending in ("svg", "png"))


def test_the_reference_is_candi():
    """On a text of one token its samples are soon that token: 0.7 of them at least, where chance would give 0.2."""
    torch.manual_seed(0)
    model = Plain(5, TrunkSettings(32, 2, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    x0 = torch.full((16, 8), 3)
    for _ in range(60):
        model.loss(x0).backward()
        optimizer.step()
        optimizer.zero_grad()
    for exact in (False, True):
        assert float((model.sample(4, 8, 4, exact) == 3).double().mean()) > 0.7


def test_flops_are_those_of_the_matrix_products():
    """Counted by torch on the trunk and a head at every position: forward and backward."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    from candi.methods import MdlmSettings
    from candi.nets.denoiser import Denoiser

    trunk = TrunkSettings(width=64, blocks=3, heads=2, conditioning=8)
    denoiser = Denoiser.build(100, trunk, MdlmSettings())
    x0 = torch.randint(100, (2, 32))
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):  # which it counts on a CPU too
        features = denoiser.features(torch.ones(2), torch.zeros_like(x0, dtype=torch.bool), x0, None, None, None)
        torch.nn.functional.linear(features, denoiser.head.weight).sum().backward()
    assert counter.get_total_flops() == pytest.approx(64 * model_flops(trunk, 100, 32, 1.0), rel=0.02)


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["bench", "trian"], "train"),
        (["bench", "train", "--vocab_size", "1"], "vocabulary of at least 2"),
        (["bench", "train", "--out", "."], "is a folder"),
        (["bench", "sample", "--sizes", "toy"], "--size"),
    ],
)
def test_mistakes_are_one_sentence(flags, says, capsys):
    with pytest.raises(SystemExit) as exit:
        main(flags)
    assert exit.value.code == 2
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
    calls = 2 * 16  # once to warm up, once timed, 16 steps each
    kinds = ("transformer", "recurrent", "bag")
    assert asked.pop("Continuous") == 2 * calls * len(kinds)  # in one-hot space and among embeddings
    assert asked == {"CANDI": calls * len(kinds), "MDLM": calls, "UDLM": calls, "DUO": calls}
    found = json.loads((tmp_path / "g.json").read_text())
    told = {row["kind"] for row in found["rows"]}
    assert {"candi", *(f"candi, gradient of a classifier ({kind})" for kind in kinds), "mdlm"} <= told
    assert not any(kind.startswith("ar") for kind in told)  # nothing guides it
    assert found["settings"]["length"] == 32  # a molecule's, whatever the size
    assert found["findings"]["mdlm, discrete guidance (transformer) / mdlm alone, 16 steps"] > 0
    assert "tokens/s" in capsys.readouterr().out
