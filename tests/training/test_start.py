"""Starting from trained weights: where the first step stands, what is taken over, and that it resumes."""

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import candi
from candi.base.errors import UserError
from candi.base.rng import Rng
from candi.cli import main
from candi.data.corpus import Piece
from candi.data.tokenizer import Tokenizer
from candi.diffusion.methods import METHODS, CandiSettings
from candi.diffusion.state import State, hidden
from candi.hub.importers import import_model
from candi.model.model import Model
from candi.nets.denoiser import Denoiser
from candi.nets.dit import DiTSettings
from candi.training.settings import TrainSettings
from candi.training.start import start_from, started_config
from tests.training.runs import losses, tensors, train_here

pytestmark = pytest.mark.usefixtures("cache")
PUBLISHED = Path(__file__).parents[1] / "hub" / "published"
LETTERS = "".join(chr(ord("a") + i) for i in range(20)) + "".join(chr(ord("A") + i) for i in range(20))


@pytest.fixture(scope="module")
def masked(tmp_path_factory) -> Path:
    """A masked model in a published layout, imported."""
    folder = tmp_path_factory.mktemp("start")
    (folder / "tokenizer.json").write_text(Tokenizer.characters([Piece(LETTERS, True)]).json)
    return import_model(str(PUBLISHED / "mdlm"), folder / "masked", tokenizer=str(folder / "tokenizer.json"))


def _started(source: Model, method: str, **options: object) -> Denoiser:
    settings = TrainSettings(
        data="", out=Path("x"), method=method, length=24, settings=METHODS[method](**options), init="source"
    )
    denoiser = Denoiser.build(started_config(settings, source.config)).eval()
    start_from(denoiser, source)
    return denoiser


@pytest.mark.parametrize("space", ["embedding", "projected", "onehot"])
def test_candi_begins_exactly_where_a_masked_model_is(masked, space):
    """The same predictions and the same loss at every position to 1e-6, whatever the noise and the time; then it

    learns to look: its gate has a gradient.
    """
    source = candi.load(masked, "cpu")
    denoiser = _started(source, "candi", space=space)
    assert isinstance(denoiser.config.settings, CandiSettings)
    assert denoiser.config.settings.gate
    x0 = torch.randint(40, (6, 24), generator=torch.Generator().manual_seed(0))
    t = torch.linspace(0.01, 1, 6)
    state = denoiser.method.corrupt(x0, t, Rng.from_seed(0))
    plain = State(t, state.known, hidden(x0, state.known))
    loss = denoiser.method.loss(denoiser(state), state, x0)
    with torch.no_grad():
        prediction = source.denoiser(plain)
        expected = source.denoiser.method.loss(prediction, plain, x0)
        torch.testing.assert_close(denoiser(state).log_probs(), prediction.log_probs(), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(loss.detach(), expected, rtol=1e-6, atol=1e-6 * float(expected.max()))
    loss.sum().backward()
    assert denoiser.method.gate is not None
    assert float(denoiser.method.gate.grad.abs()) > 0


def test_noise_is_as_large_as_the_tokens_of_the_source(masked):
    """Its rows are not of length 1: what is seen of the noise is multiplied by their mean length."""
    source = candi.load(masked, "cpu")
    denoiser = _started(source, "candi", space="embedding")
    table = source.denoiser.method.embedding.weight
    torch.testing.assert_close(denoiser.method.vector_size, table.norm(dim=-1).mean())
    denoiser.method.gate.data.fill_(1.0)
    x0 = torch.randint(40, (64, 24), generator=torch.Generator().manual_seed(0))
    state = denoiser.method.corrupt(x0, torch.ones(64), Rng.from_seed(0))
    with torch.no_grad():
        noisy = denoiser.method.embed(state)[~state.known] - denoiser.method.embedding.mask_vector()
    # about 1,500 vectors whose squared lengths vary by a fifth: the root of their mean is known to half a percent
    assert float(noisy.square().sum(-1).mean().sqrt()) == pytest.approx(float(table.norm(dim=-1).mean()), rel=0.03)


@pytest.mark.parametrize("method", ["candi", "mdlm", "duo", "udlm", "ar"])
def test_any_method_starts_from_a_run_and_from_an_imported_model(masked, tmp_path, method):
    """What both have is the source's to the bit."""
    text = tmp_path / "text.txt"
    text.write_text(LETTERS * 60)
    train_here(tmp_path / "run", data=text, steps=4, method="mdlm", validate_every=0)
    for name, source in (("run", tmp_path / "run"), ("masked", masked)):
        model = candi.load(source, "cpu")
        denoiser = _started(model, method)
        theirs = model.denoiser.state_dict()
        for key, value in denoiser.state_dict().items():
            if key in theirs and "timestep_embedder.mlp.2" not in key:
                assert torch.equal(value, theirs[key]), (name, key)
        out = tmp_path / f"{name}-{method}"
        flags = "--steps 2 --length 16 --batch-size 4 --sample-every 0 --validate-every 0 --checkpoint-every 2"
        main(f"train --data {text} --init {source} --method {method} --out {out} {flags} --device cpu".split())
        assert len(candi.load(out, "cpu").generate(1, steps=2)[0]) == 16


def test_a_mask_vector_begins_as_the_mean_of_the_tokens(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text(LETTERS * 60)
    train_here(tmp_path / "run", data=text, steps=2, method="udlm", validate_every=0)
    source = candi.load(tmp_path / "run", "cpu")
    mask = _started(source, "mdlm").method.embedding.mask
    torch.testing.assert_close(mask.detach(), source.denoiser.method.embedding.weight.detach().mean(0))


def test_a_started_run_resumes_to_the_bit(masked, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text(LETTERS * 60)
    flags = (f"--data {text} --init {masked} --length 16 --batch-size 4 --sample-every 0 --validate-every 0 "
             "--checkpoint-every 3 --log-every 1 --device cpu").split()  # fmt: skip
    main(["train", *flags, "--out", str(tmp_path / "whole"), "--steps", "6"])
    for steps in ("3", "6"):
        main(["train", *flags, "--out", str(tmp_path / "parts"), "--steps", steps])
    assert losses(tmp_path / "whole") == losses(tmp_path / "parts")
    newest = [tmp_path / name / "checkpoints" / "step-00000006" for name in ("whole", "parts")]
    assert tensors(newest[0]) == tensors(newest[1])


def _weights(run: Path, step: int) -> dict[str, torch.Tensor]:
    """The weights themselves, not their averages."""
    found = load_file(run / "checkpoints" / f"step-{step:08d}" / "training.safetensors")
    return {name.removeprefix("weight/"): tensor for name, tensor in found.items() if name.startswith("weight/")}


def test_old_weights_are_learned_slower_or_not_at_all(masked, tmp_path):
    """The first step of AdamW is learning rate times sign: a tenth of it for weights of the source, none in frozen

    parts, all of it for what is new. It resumes to the bit, with the moments of each weight in their place.
    """
    text = tmp_path / "text.txt"
    text.write_text(LETTERS * 60)
    flags = (f"--data {text} --init {masked} --length 16 --batch-size 4 --sample-every 0 --validate-every 0 "
             "--device cpu --warmup 0 --learning-rate 1e-3 --clip 1e9 --init-rate 0.1 --freeze embedding,head "
             "--checkpoint-every 1 --keep 9").split()  # fmt: skip
    main(["train", *flags, "--out", str(tmp_path / "run"), "--steps", "1"])
    source, first = candi.load(masked, "cpu").denoiser.state_dict(), _weights(tmp_path / "run", 1)
    for name, tensor in first.items():
        moved = (tensor - source.get(name, torch.zeros_like(tensor))).abs()
        if name.startswith(("method.embedding.", "head.")):
            assert not moved.any(), name
        elif name == "method.gate":
            assert float(moved) == pytest.approx(1e-3, rel=1e-3)
        elif name == "trunk.blocks.0.mlp.0.weight":
            assert float(moved.median()) == pytest.approx(1e-4, rel=1e-2)
    main(["train", *flags, "--out", str(tmp_path / "whole"), "--steps", "4"])
    for steps in ("2", "4"):
        main(["train", *flags, "--out", str(tmp_path / "run"), "--steps", steps])
    assert tensors(tmp_path / "run" / "checkpoints" / "step-00000004") == tensors(
        tmp_path / "whole" / "checkpoints" / "step-00000004"
    )


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        ("--freeze trunk,hat", "hat"),
        ("--init-rate 0", "--init-rate must be above 0"),
        ("--init nowhere", "There is no run or checkpoint at 'nowhere'"),
        ("--model.width 32", "leave out --trunk and the flags of the model"),
        ("--method onehot", "Gaussian noise without a mask needs token vectors of length 1"),
    ],
)
def test_what_cannot_be_started_is_one_sentence(masked, tmp_path, capsys, flags, complaint):
    text = tmp_path / "text.txt"
    text.write_text(LETTERS * 60)
    with pytest.raises(SystemExit) as stopped:
        main(f"train --data {text} --init {masked} --out {tmp_path}/run {flags}".split())
    assert stopped.value.code == 2
    assert complaint in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_networks_of_another_shape_are_refused(masked):
    source = candi.load(masked, "cpu")
    settings = TrainSettings(data="", out=Path("x"), length=24, init="source")
    config = started_config(settings, source.config)
    other = Denoiser.build(type(config)(40, 24, "candi", CandiSettings(), DiTSettings(width=48, blocks=3, heads=4)))
    with pytest.raises(UserError, match="missing there, or of another shape"):
        start_from(other, source)
    shutil.rmtree("x", ignore_errors=True)
