"""Checks of settings, each with the sentence for a value that fails it."""

from candi.base.errors import UserError


def flag(name: str) -> str:
    """A setting as the command line spells it."""
    return "--" + name.replace("_", "-")


def at_least(name: str, value: float | None, least: float) -> None:
    """A value that is not given is right."""
    if value is not None and not value >= least:
        raise UserError(f"{flag(name)} must be at least {least:g}, not {value}.")


def above_zero(name: str, value: float | None) -> None:
    if value is not None and not 0 < value < float("inf"):
        raise UserError(f"{flag(name)} must be above 0, not {value}.")


def below_one(name: str, value: float) -> None:
    if not 0 <= value < 1:
        raise UserError(f"{flag(name)} must be in [0, 1), not {value}.")
