"""Runs that write in blocks: resumed, started from other models, and on rows that end."""

import json

import numpy as np
import pytest
import torch

import candi
from candi.base.errors import UserError
from candi.base.rng import Rng
from candi.cli import main
from candi.cli.train import settings
from candi.data.datasets import load_dataset
from candi.data.pieces import Piece
from candi.data.tokenizer import Tokenizer
from candi.diffusion.methods import METHODS
from candi.evaluation.likelihood import likelihood
from candi.model.checkpoint import CHECKPOINTS
from candi.model.model import Model
from candi.nets.config import ModelConfig
from candi.nets.denoiser import Denoiser
from candi.nets.transformers_trunk import TransformersSettings
from candi.training.fit import train
from candi.training.objective import DenoisingObjective
from candi.training.settings import TrainSettings
from candi.training.start import start_from, started_config
from tests.training.runs import flags, losses, tensors, train_here

pytestmark = pytest.mark.usefixtures("cache")


def test_a_run_in_blocks_is_resumed_to_the_bit_and_starts_others(tmp_path, capsys):
    """CANDI in blocks; then masked diffusion from it, in its blocks unless others are asked for."""
    short = {"checkpoint_every": 4, "validate_every": 4}
    whole = train_here(tmp_path / "whole", steps=8, block=4, **short)
    train_here(tmp_path / "twice", steps=4, block=4, **short)
    again = train_here(tmp_path / "twice", steps=8, block=4, **short)
    assert tensors(whole) == tensors(again)
    assert losses(tmp_path / "whole") == losses(tmp_path / "twice")
    with pytest.raises(UserError, match="block was 4 and is now 8"):
        train_here(tmp_path / "twice", steps=8, block=8, **short)
    found = []
    for name, changes in ("masked", {}), ("plain", {"block": 16}), ("other", {"block": 2}):
        asked = settings(flags(tmp_path / name, steps=2, method="mdlm", init=str(whole), **changes))
        found.append(Model.read(train(asked, whole)).config.block)
    assert found == [4, 16, 2]
    assert (tmp_path / "whole" / CHECKPOINTS).is_dir()
    capsys.readouterr()
    main(["sample", str(tmp_path / "whole"), "--length", "40", "--json", "--steps", "2", "--stop", "e", "t"])
    record = json.loads(capsys.readouterr().out)
    assert not set("et") & set(record["text"])
    main(["sample", str(tmp_path / "whole"), "--length", "40", "--stream", "--steps", "2"])
    assert len(capsys.readouterr().out) == 41
    main(["evaluate", str(tmp_path / "whole"), "--data", "pydoc", "--sequences", "4", "--times", "2"])
    assert "bits per token" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--block", "5"], "Blocks of 5 tokens do not fill a sequence of 16; --block 4 does"),
        (["--block", "4", "--method", "ar"], "AR writes token by token already; leave out --block"),
    ],
)
def test_blocks_that_cannot_be_are_one_sentence(tmp_path, capsys, more, said):
    with pytest.raises(SystemExit) as exit:
        main(["train", "--data", "pydoc", "--out", str(tmp_path / "run"), "--length", "16", *more])
    assert exit.value.code == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_masked_blocks_of_one_begin_where_a_causal_language_model_is(tmp_path):
    """Its likelihood, exactly: the bound of masked diffusion in blocks of one is the chain rule. To 1e-4 bits, as the

    slice of times that is left out is 1e-6.
    """
    tokenizer = Tokenizer.characters([Piece("abcdefg", True)])
    torch.manual_seed(0)
    config = ModelConfig(
        tokenizer.vocab_size,
        12,
        "ar",
        METHODS["ar"](),
        TransformersSettings(),
        trunk="transformers",
        unit_vectors=False,
    )
    causal = Model(Denoiser.build(config).eval(), tokenizer)
    for name, parameter in causal.denoiser.named_parameters():  # the head begins at 0, and would predict one thing
        if "timestep" not in name:  # a language model is told no time
            parameter.data.add_(0.1 * torch.randn_like(parameter))
    asked = TrainSettings(data="", out=tmp_path, method="mdlm", length=12, block=1, init="source")
    started = started_config(asked, causal.config)
    denoiser = Denoiser.build(started).eval()
    start_from(denoiser, causal)
    sequences = np.random.default_rng(0).integers(0, tokenizer.vocab_size, (6, 12))
    exact = likelihood(causal, sequences).bits_per_token
    # an open block shows one position, masked or not; that it is shown masked has weight 1 in expectation
    x0 = torch.from_numpy(sequences)
    parts = denoiser.split(x0)
    state = denoiser.method.prior(parts, torch.zeros_like(parts, dtype=torch.bool), Rng.from_seed(0))
    with torch.no_grad():
        nats = denoiser(state, context=x0).nll(parts).mean()
    assert float(nats) / np.log(2) == pytest.approx(exact, abs=1e-4)
    found = likelihood(Model(denoiser, tokenizer), sequences, times=400)
    assert found.low < exact < found.high


@pytest.fixture
def lines(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("".join(f"{'ab' * n}\n" for n in range(1, 8)))
    return str(path)


def test_of_a_row_the_block_in_which_it_ends_is_the_last_that_is_learned(lines):
    """Its end and the padding behind it are learned; of later blocks nothing is, in training and in validation."""
    data = load_dataset(lines, "char", 16, rows=True, block=4, valid_fraction=0.0)
    stream = load_dataset(lines, data.tokenizer, 16, rows=True, block=4, valid_fraction=0.0, stream=True)
    end = data.tokenizer.end
    for sequences in (data.train, stream.train):
        rows, given = sequences.windows(np.arange(7)), sequences.given(np.arange(7))
        for row, mark in zip(rows.tolist(), given.tolist(), strict=True):
            last = row.index(end) // 4
            assert mark == [place // 4 > last for place in range(16)]
            assert set(row[row.index(end) :]) == {end}
    learned = np.concatenate(
        [row[~mark] for row, mark in zip(data.train.first(7), data.train.first_given(7), strict=True)]
    )
    counts = np.bincount(learned, minlength=data.tokenizer.vocab_size) / len(learned)
    assert data.frequencies().numpy() == pytest.approx(counts[None])
    assert data.train.learned == pytest.approx(1 - data.train.given(np.arange(7)).mean())
    assert load_dataset(lines, "char", 16, rows=True, valid_fraction=0.0).train.given(np.arange(7)) is None


def test_what_is_never_written_costs_nothing_and_is_seen_by_nobody(lines):
    """The loss of a row does not depend on what stands after the block in which it ends."""
    data = load_dataset(lines, "char", 16, rows=True, block=4, valid_fraction=0.0)
    config = ModelConfig(
        data.tokenizer.vocab_size, 16, "mdlm", METHODS["mdlm"](), candi.DiTSettings(width=16, blocks=2, heads=2),
        rows=True, block=4,
    )  # fmt: skip
    torch.manual_seed(0)
    denoiser = Denoiser.build(config)
    for parameter in denoiser.parameters():
        parameter.data.add_(0.2 * torch.randn_like(parameter))
    objective = DenoisingObjective(denoiser)
    x0, given = (torch.from_numpy(part(np.arange(7))) for part in (data.train.windows, data.train.given))
    other = torch.where(given, (x0 + 1) % data.tokenizer.vocab_size, x0)
    one, two = (objective(x, range(7), 7, Rng.from_seed(0), None, given) for x in (x0, other))
    torch.testing.assert_close(one, two)
    assert not one[given].any()
    assert (one[~given] > 0).any()
