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
from candi.nets.engine import Engine
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
    main(["sample", str(run), "--n=2", "--steps=3", "--label=1", "--cfg-weight=1"])
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


def test_the_engine_of_a_gpu_takes_it(run):
    """Sampling on a GPU is in bf16; a trunk that does not round itself stays as it is."""
    model = candi.load(run, "cpu")
    x0 = torch.zeros(2, 8, dtype=torch.long)
    state = model.denoiser.method.prior(x0, x0.bool(), candi.Rng.from_seed(0))
    with torch.no_grad():
        plain, fast = model.denoiser(state), Engine(model.denoiser, compile=False)(state)
    assert torch.equal(plain.features, fast.features)
    assert fast.draw(candi.Rng.from_seed(1)).shape == (2, 8)


class Odd(candi.Trunk):
    """A buffer, a weight that is never used, one that is frozen, and one under two names."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.width = width
        self.register_buffer("shift", torch.ones(width))
        self.first = torch.nn.Linear(width, width, bias=False)
        self.second = torch.nn.Linear(width, width, bias=False)
        self.second.weight = self.first.weight
        self.unused = torch.nn.Parameter(torch.zeros(3))
        self.frozen = torch.nn.Parameter(torch.ones(width), requires_grad=False)

    def forward(self, vectors, time, condition=None, cache=None):
        return self.second(torch.tanh(self.first(vectors))) * self.frozen + self.shift


def test_buffers_frozen_unused_and_tied_weights_are_kept(place):
    candi.register_trunk("odd", Odd)
    data = candi.load_dataset("pydoc", "char", length=8)
    size = data.tokenizer.vocab_size
    config = candi.ModelConfig(size, 8, "mdlm", candi.METHODS["mdlm"](), trunks.TRUNKS["odd"](), trunk="odd")

    def fitted(steps: int, out: str) -> candi.Model:
        torch.manual_seed(0)
        denoiser = candi.Denoiser.build(config)
        denoiser.trunk.shift.fill_(2.0)
        return candi.fit(denoiser, data, out=out, steps=steps, batch_size=4, sample_every=0, validate_every=0,
                         device="cpu")  # fmt: skip

    whole = fitted(6, "odd")
    assert (whole.denoiser.trunk.shift == 2).all()
    assert torch.equal(whole.denoiser.trunk.first.weight, whole.denoiser.trunk.second.weight)
    fitted(3, "parts")
    parts = fitted(6, "parts")
    assert all(torch.equal(a, b) for a, b in zip(whole.denoiser.parameters(), parts.denoiser.parameters(), strict=True))


def test_settings_of_another_trunk_are_refused(place):
    with pytest.raises(candi.UserError, match="'dit' is described by DiTSettings, not by"):
        candi.ModelConfig(5, 8, "mdlm", candi.METHODS["mdlm"](), trunks.trunk_settings("mixer:Mixer")())


def test_arguments_that_cannot_be_kept_are_refused():
    class Strange(candi.Trunk):
        def __init__(self, width: int = 4, sizes: tuple[int, ...] = (1,)) -> None: ...

    with pytest.raises(candi.UserError, match="'sizes' of the trunk 'strange' cannot be kept"):
        candi.register_trunk("strange", Strange)


def test_fit_says_what_is_missing(run):
    data = candi.load_dataset("pydoc", "char", length=8)
    denoiser = candi.load(run, "cpu").denoiser
    with pytest.raises(candi.UserError, match="Say where the run is kept"):
        candi.fit(denoiser, data)
    with pytest.raises(candi.UserError, match="build it for the dataset"):
        candi.fit(denoiser, data, out="none")


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
