"""A number by which a model can be told to be itself: nothing but its own weights, tokenizer and code give it."""

from pathlib import Path

import torch

from candi.config import read_json
from candi.errors import UserError
from candi.model import Model, read_model
from candi.rng import Rng
from candi.shipped import CARD
from candi.training.objective import Objective

_TIMES = 8
TOLERANCE = 1e-3  # relative: what other machines' arithmetic may change


@torch.no_grad()
def known_loss(model: Model, text: str) -> float:
    """The mean loss of a text at eight fixed times and noises, in nats as in training."""
    tokenizer, length = model.tokenizer, model.config.length
    ids = tokenizer.encode(text)[:length] if tokenizer.pad is None else tokenizer.whole_row(text, length)
    x0 = torch.as_tensor(ids, device=model.device).expand(_TIMES, -1)
    objective = Objective(model.denoiser).eval()
    return float(objective(x0, range(_TIMES), _TIMES, Rng.from_seed(0, model.device)).mean())


def confirm(folder: Path) -> float:
    """The loss that a packed model's card tells of, if the model still has it."""
    card = read_json(folder / CARD)
    known = card.get("check") if isinstance(card, dict) else None
    if (
        not isinstance(known, dict)
        or not isinstance(known.get("text"), str)
        or not isinstance(known.get("loss"), float)
    ):
        raise UserError(f"{folder / CARD} tells of no loss to hold the model against; pack it anew with candi export.")
    found = known_loss(read_model(folder), known["text"])
    if abs(found - known["loss"]) > TOLERANCE * abs(known["loss"]):
        raise UserError(
            f"{folder} has a loss of {found:.5f} where its card says {known['loss']:.5f}: its tokenizer, configuration "
            "or this version of candi is not what it was packed with. Fetch it anew."
        )
    return found
