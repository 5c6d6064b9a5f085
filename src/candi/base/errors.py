"""Errors whose message is meant for the person at the keyboard."""

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(ValueError):
    """One sentence that says what is wrong and what to do. The command line prints it and exits with 2."""


def extra(name: str) -> str:
    """How to get what an extra of the package brings. Nothing is released yet: a clone is what is installed."""
    return f"pip install -e '.[{name}]' in the repository"


def unknown(kind: str, name: str, known: Iterable[str]) -> UserError:
    """The error for a name that does not exist, with the nearest one that does."""
    name, names = name if len(name) < 100 else f"{name[:100]}...", sorted(known)
    near = get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"choose one of: {', '.join(names)}."
    return UserError(f"There is no {kind} {name!r}; {hint}")
