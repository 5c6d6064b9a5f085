"""Options of every command that walks from noise to text."""

from typing import Any

from jsonargparse import ArgumentParser

from candi.methods import Method

WALK = ("length", "steps", "temperature", "top_k", "nucleus", "prompt", "infill", "blank", "seed")


def add_walk(flags: ArgumentParser) -> None:
    flags.add_argument("--length", type=int | None, default=None, help="Tokens in each; by default as in training.")
    flags.add_argument(
        "--steps",
        type=int | None,
        default=None,
        help="Denoising steps: evaluations of the network; by default what the model recommends, else 32.",
    )
    flags.add_argument(
        "--temperature",
        type=float | None,
        default=None,
        help="Below 1 is safer, above 1 wilder; by default what the model recommends, else 1.",
    )
    flags.add_argument("--top_k", type=int | None, default=None, help="Only the likeliest tokens of each position.")
    flags.add_argument("--nucleus", type=float | None, default=None, help="Only those that hold this probability.")
    flags.add_argument("--prompt", type=str, default=None, help="Text that the samples begin with.")
    flags.add_argument("--infill", type=str, default=None, help="A template: each blank is a token to fill.")
    flags.add_argument("--blank", type=str, default="_", help="The character that is a blank in --infill.")
    flags.add_argument("--seed", type=int, default=0, help="The same seed gives the same samples.")
    for name, values in method_options().items():
        flags.add_argument(f"--{name}", type=str | None, default=None, help=f"Option of some methods: {values}.")


def add_speed(flags: ArgumentParser) -> None:
    """How a GPU is used."""
    flags.add_argument("--precision", type=str, default="auto", help="auto, bf16 or float32; auto is bf16 on a GPU.")
    flags.add_argument(
        "--compile",
        type=bool,
        default=False,
        nargs="?",
        const=True,
        help="Faster on a GPU, after half a minute; nothing for methods that write one token after another.",
    )


def method_options() -> dict[str, str]:
    """The options of all methods' steps, with the values they take."""
    found: dict[str, dict[str, None]] = {}
    for method in _kinds(Method):
        for name, values in method.options.items():
            found.setdefault(name, {}).update(dict.fromkeys(values))
    return {name: ", ".join(values) for name, values in found.items()}


def _kinds(method: Any) -> list[Any]:
    """All classes below, plugins' among them."""
    return [kind for child in method.__subclasses__() for kind in (child, *_kinds(child))]
