"""Text as people write it, from corpora that are published in tokens: white space around marks, letters cut off words.

Each rule is a list of replacements, made one after another. They are part of what a number means: `VERSION` names them.
"""

import re
from collections.abc import Callable, Sequence

VERSION = "1"
_Rule = Sequence[tuple[str, str]]  # regular expression, what stands for it

_ENGLISH: _Rule = (
    (r" (n't|'s|'m|'d|'re|'ve|'ll)\b", r"\1"),
    (r" ([.,;:!?%)\]}])", r"\1"),
    (r"([(\[{$#]) ", r"\1"),
    (r'" ([^"\n]*?) "', r'"\1"'),
)
_RULES: dict[str, _Rule] = {
    "none": (),
    "wikitext": (  # headings stand between signs, marks inside numbers and words between @
        (r"(?m)^ (=+) (.*?) \1 $", r"\1 \2 \1"),
        (r" @([-,.])@ ", r"\1"),
        (r" °", "°"),
        *_ENGLISH,
        (r"' ([^'\n]*?) '", r"'\1'"),
    ),
    "ptb": ((r" N\b", " 1"), (r"\\/", "/"), *_ENGLISH, (r"(\w) 's", r"\1's"), (r"(\w)s ' ", r"\1s' "), (r"<unk>", "?")),
    "lm1b": ((r"\b(https?) : / / ", r"\1://"), (r" / ", "/"), *_ENGLISH, (r"' ([^'\n]*?) '", r"'\1'")),
    "lambada": ((r"[“”]|''|``", '"'), (r"[‘’]", "'"), *_ENGLISH),
    "papers": (*_ENGLISH,),
}


def detokenizer(name: str) -> Callable[[str], str]:
    """The function of a rule by its name."""
    compiled = [(re.compile(pattern), found) for pattern, found in _RULES[name]]

    def detokenize(text: str) -> str:
        for pattern, found in compiled:
            text = pattern.sub(found, text)
        return text

    return detokenize
