"""It learns: a character model of real prose, through the public command."""

import math
import re
from collections import Counter

import pytest
import torch

import candi
from candi.cli import main
from candi.data.corpus import Corpus
from candi.diffusion.methods import METHODS
from tests.training.runs import losses, train_here

pytestmark = pytest.mark.usefixtures("cache")


def _letters() -> str:
    """Python's manual in text8's alphabet: a to z and single spaces."""
    text = "".join(piece.text for piece in Corpus("pydoc").pieces())
    return re.sub(r"[^a-z]+", " ", text.lower())


@pytest.mark.parametrize("method", METHODS)
def test_every_method_learns_through_the_public_command(tmp_path, method):
    """120 steps on the demo's corpus: the validation loss of the averaged weights falls by a tenth and more."""
    main(
        f"train --preset tiny --data pydoc --out {tmp_path}/run --method {method} --steps 120 --validate_every 20 "
        "--sample_every 120 --checkpoint_every 120 --model.convolution 5".split()
    )
    valid = [float(row[2]) for row in losses(tmp_path / "run")[1:] if row[2]]
    assert valid[-1] < 0.9 * valid[0]
    assert (tmp_path / "run" / "samples" / "step-00000120.txt").read_text().strip()


def test_a_few_hundred_steps_fall_well_below_the_unigram_entropy(tmp_path):
    text = _letters()
    (tmp_path / "letters.txt").write_text(text)
    counts = Counter(text)
    entropy = -sum(n / len(text) * math.log(n / len(text)) for n in counts.values())
    main(
        f"train --preset tiny --data {tmp_path}/letters.txt --out {tmp_path}/run --steps 300 --validate_every 300 "
        "--sample_every 0 --checkpoint_every 300 --model.width 64 --model.convolution 7".split()
    )
    valid = float(losses(tmp_path / "run")[-1][2])
    assert 2.7 < entropy < 3.0  # text8's is 2.85
    assert valid < entropy - 0.4
    # word-like: spaces fall about where they fall in prose, and pairs of letters are those of prose
    samples = " ".join(candi.load(tmp_path / "run").generate(n=16, length=64, steps=64, temperature=0.8))
    words = samples.split()
    assert 2.5 < sum(map(len, words)) / len(words) < 9
    common = {pair for pair, _ in Counter(zip(text, text[1:], strict=False)).most_common(200)}
    pairs = list(zip(samples, samples[1:], strict=False))
    share = sum(pair in common for pair in pairs) / len(pairs)
    by_chance = sum(counts[a] * counts[b] for a, b in common) / len(text) ** 2
    assert share > by_chance + 0.15


def test_training_counts_tokens_and_keeps_the_frequencies(tmp_path):
    """One row for text, which looks the same at every position; and the prior can begin from them."""
    text = tmp_path / "text.txt"
    text.write_text("abbcccdddd" * 400)
    train_here(tmp_path / "run", data=text, steps=1, valid_fraction=0.0)
    model = candi.load(tmp_path / "run", "cpu")
    kept = model.denoiser.method.frequencies
    assert kept is not None
    share = {model.tokenizer.decode([v]): float(p) for v, p in enumerate(kept[0])}
    assert kept.shape == (1, model.config.vocab_size)
    assert [share[letter] for letter in "abcd"] == pytest.approx([0.1, 0.2, 0.3, 0.4], abs=0.01)
    assert model.sample(2, steps=2, prior="frequencies").tolist() != model.sample(2, steps=2).tolist()


def test_frequencies_of_rows_are_those_of_each_position(tmp_path):
    (tmp_path / "rows.smi").write_text("C\nCC\nCO\nN\n" * 4)
    data = candi.load_dataset(str(tmp_path / "rows.smi"), "smiles", 6, valid_fraction=0.0, cache=tmp_path)
    frequencies, tokenizer = data.frequencies(), data.tokenizer
    carbon, oxygen, nitrogen = (int(tokenizer.encode(letter)[0]) for letter in "CON")
    assert frequencies.shape == (6, tokenizer.vocab_size)
    assert torch.allclose(frequencies.sum(-1), torch.ones(6))
    assert [float(frequencies[1, v]) for v in (carbon, oxygen, nitrogen)] == [0.75, 0.0, 0.25]
    assert [float(frequencies[2, v]) for v in (carbon, oxygen)] == [0.25, 0.25]
    assert float(frequencies[0, tokenizer.begin]) == 1.0
