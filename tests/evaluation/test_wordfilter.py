import itertools
import string

import pytest

from candi.base.errors import UserError
from candi.evaluation.wordfilter import WordFilter

THREE = ["".join(letters) for letters in itertools.product(string.ascii_lowercase, repeat=3)]


def test_no_word_is_missed_and_few_strangers_get_in(tmp_path):
    """10 bits a word: a stranger gets in with chance 2^-10, so 13,576 of them 13 times, give or take 3.6 (4 sigma)."""
    known = WordFilter.of(THREE[:4000])
    known.write(tmp_path / "words.bloom")
    again = WordFilter.read(tmp_path / "words.bloom")
    assert len(again) == 4000
    assert again.digest == known.digest
    assert all(word in again for word in THREE[:4000])
    assert 0 < sum(word in again for word in THREE[4000:]) < 13.3 + 4 * 3.6
    assert (tmp_path / "words.bloom").stat().st_size < 4000 * 10 / 0.69 / 8 + 100


def test_what_is_no_filter_is_refused(tmp_path):
    (tmp_path / "x").write_bytes(b"hello\nworld")
    with pytest.raises(UserError, match="no word filter"):
        WordFilter.read(tmp_path / "x")
