import math
from collections import Counter

import pytest
import torch

from candi.base.errors import UserError
from candi.evaluation.diversity import distinct, entropy, word_entropy
from candi.evaluation.words import LETTERS, WordList, known_words, words


def test_entropy_is_that_of_the_counts():
    tokens = torch.randint(7, (5, 40), generator=torch.Generator().manual_seed(0))
    for row, found in zip(tokens.tolist(), entropy(tokens).tolist(), strict=True):
        shares = [count / 40 for count in Counter(row).values()]
        assert found == pytest.approx(-sum(p * math.log(p) for p in shares))
    assert entropy(torch.tensor([[3, 3, 3], [0, 1, 2]])).tolist() == pytest.approx([0, math.log(3)], abs=1e-12)


def test_distinct_n_grams():
    assert distinct(["abab", "abab"], 2) == 2 / 6
    assert distinct([[1, 2, 3]], 1) == 1
    assert math.isnan(distinct(["a"], 2))
    with pytest.raises(UserError):
        distinct(["a"], 0)


def test_entropy_of_words():
    assert word_entropy("a b a b") == pytest.approx(math.log(2))
    assert word_entropy("same same") == 0
    assert math.isnan(word_entropy("  "))


def test_words_of_text8():
    known = known_words(["the cat sat", "on a mat"])
    found = words(["the the dog", "a cat"], known)
    assert (found.valid, found.unique, found.count) == (0.8, pytest.approx((2 / 3 + 1) / 2), 5)
    assert words(["a cat"], known, letters="leave-out").count == 1
    assert (words(["a cat"], known).valid, words(["a cat"], known, letters="invalid").valid) == (1.0, 0.5)
    identities = [WordList(known, letters).identity["letters"] for letters in LETTERS]
    assert identities == [True, False, "invalid"]  # stamped: points of different ways are not compared
    assert math.isnan(words(["  "], known).valid)
    with pytest.raises(UserError):
        words(["a"], frozenset())
