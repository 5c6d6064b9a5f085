"""The run-time type checker of the tests: shapes and types of every call, with an int welcome where a float is."""

from typing import Any


def typecheck(checked: Any) -> Any:
    from beartype import BeartypeConf, beartype  # only now: the tests of GPUs do without it

    return beartype(conf=BeartypeConf(is_pep484_tower=True))(checked)
