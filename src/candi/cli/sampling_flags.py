"""The flags of sampling, written once for every command that samples."""

from typing import Any

from jsonargparse import ArgumentParser, Namespace

from candi.base.errors import UserError
from candi.base.errors import unknown as known_only
from candi.data.documents import CHAT
from candi.data.tokenizer import Tokenizer
from candi.diffusion.methods import Method
from candi.model.model import Model

TEMPLATE = ("length", "prompt", "infill", "blank")
SAMPLING = (*TEMPLATE, "steps", "temperature", "top_k", "top_p", "seed")
_HELP = {
    "length": "Tokens in each, at most; by default as in training. What writes in blocks can write any length.",
    "steps": "Denoising steps: evaluations of the network, of each block where it writes in blocks; by default what "
    "the model recommends, else 32, but no more than a block has tokens.",
    "temperature": "Below 1 is safer, above 1 wilder; by default what the model recommends, else 1.",
    "top_k": "Only the likeliest tokens of each position.",
    "top_p": "Only the likeliest tokens that hold this probability together.",
}


def add_sampling(flags: ArgumentParser) -> None:
    """The options of `Model.trajectory`."""
    add = flags.add_argument
    add_length(flags)
    add_steps(flags)
    add_truncation(flags)
    add("--prompt", type=str, default=None, help="Text that the samples begin with.")
    add("--infill", type=str, default=None, help="A template: each blank is a token to fill.")
    add("--blank", type=str, default="_", help="The character that is a blank in --infill.")
    add_seed(flags)
    add_method_options(flags, "Option of some methods")


def add_length(flags: ArgumentParser) -> None:
    flags.add_argument("--length", type=int | None, default=None, help=_HELP["length"])


def add_steps(flags: ArgumentParser) -> None:
    flags.add_argument("--steps", type=int | None, default=None, help=_HELP["steps"])
    flags.add_argument("--temperature", type=float | None, default=None, help=_HELP["temperature"])


def add_truncation(flags: ArgumentParser) -> None:
    flags.add_argument("--top_k", type=int | None, default=None, help=_HELP["top_k"])
    flags.add_argument("--top_p", type=float | None, default=None, help=_HELP["top_p"])


def add_seed(flags: ArgumentParser) -> None:
    flags.add_argument("--seed", type=int, default=0, help="The same seed gives the same samples.")


def add_batch_size(flags: ArgumentParser, default: int | None = 64, more: str = "") -> None:
    flags.add_argument("--batch_size", type=int | None, default=default, help=f"Samples made at once{more}.")


def add_method_options(flags: ArgumentParser, what: str) -> None:
    for name, values in method_options().items():
        flags.add_argument(f"--{name}", type=str | None, default=None, help=f"{what}: {values}.")


def add_process(flags: ArgumentParser) -> None:
    """The process whose bound is computed, of methods that have several."""
    known = method_options()
    flags.add_argument("--path", type=str | None, default=None, help=f"Of the noise: {known['path']}.")
    flags.add_argument("--prior", type=str | None, default=None, help=f"What it begins from: {known['prior']}.")


def add_chat(flags: ArgumentParser) -> None:
    help = "How a message of a chat is written, with {role} and {content}."
    flags.add_argument("--chat", type=str, default=CHAT, help=help)


def add_unknown(flags: ArgumentParser) -> None:
    help = "What a character is that the vocabulary has not: refuse (a sentence about it), or token (its own token)."
    flags.add_argument("--unknown", type=str, default="refuse", help=help)


def tokenizer_for(model: Model, unknown: str) -> Tokenizer:
    """The model's tokenizer, as --unknown says."""
    if unknown not in ("refuse", "token"):
        raise known_only("choice of --unknown", unknown, ("refuse", "token"))
    return model.tokenizer.tolerating() if unknown == "token" else model.tokenizer


def add_speed(flags: ArgumentParser) -> None:
    """How a GPU is used."""
    help = "auto, float32, bf16 or fp8-mixed; auto is bf16 on a GPU."
    flags.add_argument("--precision", type=str, default="auto", help=help)
    flags.add_argument(
        "--compile",
        type=bool,
        default=False,
        nargs="?",
        const=True,
        help="Faster on a GPU, after half a minute.",
    )


def add_classifier(flags: ArgumentParser, several: bool = False) -> None:
    """Guidance by a classifier."""
    what = "a folder of candi train-classifier, or the property of one that came with the model"
    if several:
        flags.add_argument("--classifiers", type=str | None, default=None, help=f"Guide by a classifier: {what}; of a "
                           "list each run takes the first that fits.")  # fmt: skip
    else:
        flags.add_argument("--classifier", type=str | None, default=None, help=f"Guide by a classifier: {what}.")
        flags.add_argument("--weight", type=float, default=1.0, help="Weight of its guidance; 0 is none.")
    flags.add_argument("--target", type=str, default="1", help="The class that is wanted of it, by name or number.")
    flags.add_argument("--reveal", type=float, default=0.0, help="How much it tilts revealed tokens (Gaussian noise).")


def add_dcbg(flags: ArgumentParser, more: str = "") -> None:
    what = f"Discrete guidance: first-order (default), one backward pass a step, or exact, reads all neighbours{more}."
    flags.add_argument("--dcbg", type=str | None, default=None, help=what)


def add_label(flags: ArgumentParser, weight: bool = True) -> None:
    """Conditioning of a model that was trained with labels."""
    what = "What a run that was trained with --label writes: a class, by name or number, or NAME=CLASS,... of several."
    flags.add_argument("--label", type=str | None, default=None, help=what)
    if weight:
        flags.add_argument("--cfg_weight", type=float, default=0.0, help="Weight of classifier-free guidance by it.")


def sampling_options(given: Namespace, *more: str) -> dict[str, Any]:
    """What was given of them, as `Model.trajectory` takes it."""
    return {name: given[name] for name in (*SAMPLING, *more, *method_options()) if name in given}


def label_options(given: Namespace) -> dict[str, Any]:
    """The same of `add_label`."""
    if given.label is None and given.cfg_weight:
        raise UserError("--cfg-weight needs a --label to guide by.")
    return {} if given.label is None else {"label": given.label, "label_weight": given.cfg_weight}


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
