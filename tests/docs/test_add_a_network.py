"""The network of docs/add-a-network.md: thirty lines of one's own that every command takes."""

import re
import sys
from pathlib import Path

import pytest
import torch

import candi
from candi.cli import main
from candi.diffusion.guidance import guide_for
from candi.evaluation.points import read_points
from candi.nets import trunks
from tests.training.runs import flags

pytestmark = pytest.mark.usefixtures("cache")
PAGE = (Path(__file__).parents[2] / "docs" / "add-a-network.md").read_text(encoding="utf-8")
TRUNK, FIT, LOGITS = re.findall(r"```python\n(.*?)```", PAGE, re.S)
SMALL = ["--model.width=16", "--model.blocks=1"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with the module in it, where commands are run; and what importing it leaves behind is taken back."""
    folder = tmp_path_factory.mktemp("network")
    (folder / "mixer.py").write_text(TRUNK)
    (folder / "some.smi").write_text("CCO\nCCN\nCCC\nCOC\nC1CC1\n" * 8)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.syspath_prepend(str(folder))
        patch.setattr(trunks, "TRUNKS", dict(trunks.TRUNKS))
        patch.setattr(candi, "TRUNKS", trunks.TRUNKS)
        yield folder
    sys.modules.pop("mixer", None)


@pytest.fixture(scope="module")
def run(place):
    given = flags(place / "run", steps=20, trunk="mixer:Mixer", label="rings>=1", data=place / "some.smi",
                  tokenizer="smiles", length=8, batch_size=8)  # fmt: skip
    main(["train", *(flag for flag in given if not flag.startswith("--model.")), *SMALL])
    return place / "run"


def test_it_is_thirty_lines():
    body = TRUNK[TRUNK.index("class Mixer") :]
    assert len([line for line in body.splitlines() if line.strip()]) <= 36  # its docstring among them


def test_it_learns_by_the_command(place):
    small = [flag for flag in flags(place / "text", steps=150, trunk="mixer:Mixer", learning_rate=5e-3)
             if not flag.startswith("--model.")]  # fmt: skip
    main(["train", *small, *SMALL, "--validate-every=50", "--ema=0.9"])
    rows = (place / "text" / "metrics.csv").read_text().splitlines()[1:]
    valid = [float(row.split(",")[2]) for row in rows if row.split(",")[2]]
    assert valid[-1] < 0.95 * valid[0]


def test_it_is_saved_loaded_sampled_and_resumed(run, tmp_path, capsys):
    model = candi.load(run, "cpu")
    assert type(model.denoiser.trunk).__name__ == "Mixer"
    assert model.config.model.blocks == 1
    model.save_pretrained(tmp_path / "packed")
    assert candi.load(tmp_path / "packed", "cpu").generate(2, seed=1) == model.generate(2, seed=1)
    main(["sample", str(run), "--n=2", "--steps=3", "--class-label=1", "--cfg-weight=1"])
    main(["export", str(run), "--out", str(tmp_path / "shared")])
    assert "mixer:Mixer" in (tmp_path / "shared" / "README.md").read_text()
    capsys.readouterr()


def test_it_is_guided_and_swept(run, place):
    model = candi.load(run, "cpu")
    oxygen = int(model.tokenizer.encode("O")[0])
    counts = [
        sum("O" in text for text in model.generate(32, steps=6, guide=guide_for(model.denoiser.method, likes, weight)))
        for likes in [lambda x, t: torch.nn.functional.logsigmoid(4 * x[..., oxygen].sum(-1) - 2)]
        for weight in (0.0, 20.0)
    ]
    assert counts[1] > counts[0]
    main(["frontier", str(run), "--out", str(place / "sweep"), "--steps=2,4", "--temperatures=0.8,1", "--n=4",
          "--scorers=none", "--property=rings", "--device=cpu"])  # fmt: skip
    assert len(read_points(place / "sweep" / "points.jsonl")) == 4


def test_python_does_what_the_command_does(place, capsys):
    exec(FIT, {"candi": candi})
    assert (place / "runs" / "mixer" / "run.json").exists()
    assert capsys.readouterr().out.startswith("[")


def test_a_network_with_logits_of_its_own_samples():
    exec(LOGITS, {"candi": candi, "torch": torch})


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--method=ar"], "is not causal"),
        (["--model.width=no"], "width"),
        (["--model.heads=2"], "no option --model.heads"),
    ],
)
def test_what_does_not_fit_is_one_sentence(place, capsys, arguments, complaint):
    base = ["train", "--trunk=mixer:Mixer", "--preset=tiny", "--data=pydoc", f"--out={place / 'none'}"]
    with pytest.raises(SystemExit) as stopped:
        main([*base, *arguments])
    assert stopped.value.code == 2
    assert complaint in capsys.readouterr().err
    assert not (place / "none").exists()
