"""A number that only a model's own weights, tokenizer and code give: a loss by which it is recognised."""

from pathlib import Path

import numpy as np
import torch

from candi.base.config import read_json
from candi.base.errors import UserError
from candi.base.rng import Rng
from candi.model.files import CARD
from candi.model.model import Model
from candi.training.objective import DenoisingObjective

_TIMES = 8
TOLERANCE = 1e-3  # relative: what other machines' arithmetic may change


@torch.no_grad()
def fingerprint_loss(model: Model, text: str) -> float:
    """The mean loss of a text at eight fixed times and noises, in nats as in training."""
    tokenizer, length = model.tokenizer, model.config.length
    ids = tokenizer.encode(text)[:length] if not tokenizer.framed else tokenizer.whole_row(text, length)
    block = model.config.block or 1
    if block > 1 and (len(ids) % block or not len(ids)):  # whole blocks
        ids = np.resize(ids if len(ids) else np.zeros(1, np.int64), max(block, len(ids) // block * block))
    x0 = torch.as_tensor(ids, device=model.device).expand(_TIMES, -1)
    objective = DenoisingObjective(model.denoiser).eval()
    return float(objective(x0, range(_TIMES), _TIMES, Rng.from_seed(0, model.device)).mean())


def confirm(folder: Path) -> float:
    """The loss that a packed model's card names, if the model still has it."""
    card = read_json(folder / CARD)
    known = card.get("check") if isinstance(card, dict) else None
    if (
        not isinstance(known, dict)
        or not isinstance(known.get("text"), str)
        or not isinstance(known.get("loss"), float)
    ):
        raise UserError(f"{folder / CARD} tells of no loss to hold the model against; pack it anew with candi export.")
    found = fingerprint_loss(Model.read(folder), known["text"])
    if abs(found - known["loss"]) > TOLERANCE * abs(known["loss"]):
        raise UserError(
            f"{folder} has a loss of {found:.5f} where its card says {known['loss']:.5f}: its tokenizer, configuration "
            "or this version of candi is not what it was packed with. Fetch it anew."
        )
    return found
