"""The run-time type checker of the tests: shapes and types of every call, with an int welcome where a float is."""

from beartype import BeartypeConf, beartype

typecheck = beartype(conf=BeartypeConf(is_pep484_tower=True))
