"""Finding a model by path or name."""

from pathlib import Path

import torch
from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError

from candi.base.errors import UserError, unknown
from candi.base.machine import device_named
from candi.diffusion.guidance import DCBG, Guidance, guide_for
from candi.evaluation.run_handle import RunHandle
from candi.hub.shipped import MOLECULES, WORDS, shipped
from candi.model.checkpoint import find_checkpoint, to_stderr
from candi.model.classifiers import (
    CLASSIFIERS,
    ClassifierConfig,
    check_classifier,
    classifier_of,
    load_classifier,
)
from candi.model.files import CARD, CONFIG, TOKENIZER, WEIGHTS
from candi.model.model import Model
from candi.nets.classifier import Classifier

_HUB = "hf:"


def load(path: str | Path, device: torch.device | str = "auto") -> Model:
    """The model of a run (its newest intact checkpoint), of a checkpoint's folder, of the hub (hf:OWNER/NAME), or one
    that ships, by its name."""
    device = device_named(device)
    if str(path).startswith(_HUB):
        return _from_hub(str(path).removeprefix(_HUB), device)
    return Model.read(find(Path(path).expanduser()), device)


def locate(source: str) -> Path:
    """The folder of a model's files, fetched from the hub if it is there."""
    if not source.startswith(_HUB):
        return find(Path(source).expanduser())
    name, files = source.removeprefix(_HUB), [WEIGHTS, CONFIG, TOKENIZER, CARD, WORDS, MOLECULES, f"{CLASSIFIERS}/**"]
    try:
        return Path(snapshot_download(name, allow_patterns=files))
    except (HfHubHTTPError, OSError, ValueError) as error:
        raise _unreachable(name, error) from None


def _unreachable(name: str, error: Exception) -> UserError:
    reason = str(error).strip().splitlines()[0]
    return UserError(f"The model {name!r} cannot be fetched from the hub: {reason}")


def _from_hub(name: str, device: torch.device) -> Model:
    try:
        model: Model = Model.from_pretrained(name, device=device)
    except UserError:
        raise
    except (HfHubHTTPError, OSError, ValueError, RecursionError) as error:  # the library reads config.json as well
        raise _unreachable(name, error) from None
    return model


def find(folder: Path) -> Path:
    """The checkpoint that a path means, or the folder of a model that ships."""
    known = shipped()
    found = find_checkpoint(folder, to_stderr) if folder.is_dir() else None
    if found is not None:
        return found
    if str(folder) in known:  # there may be something else of its name, a file of data, say
        return known[str(folder)]
    if folder.exists():
        raise UserError(f"{folder} is neither a run nor a checkpoint: it holds no config.json.")
    raise UserError(
        f"There is no run or checkpoint at {str(folder)!r}; train one first with candi train, or take one that "
        f"ships: {', '.join(known) or 'none'}."
    )


def run_handle(source: str) -> RunHandle:
    """A run for a comparison, under the name of its folder."""
    folder = Path(source).expanduser()
    return RunHandle(folder.name or folder.resolve().name, locate(source))


def load_guide(
    source: str,
    model: Model,
    folder: Path,
    target: int | str,
    weight: float,
    *,
    reveal: float = 0.0,
    dcbg: str | None = None,
) -> tuple[Guidance, Classifier, ClassifierConfig]:
    """Guidance of a model, whose files lie in `folder`, by a classifier: a folder, or one that came with the model."""
    name, packed = classifier_of(folder, source), sorted(path.name for path in (folder / CLASSIFIERS).glob("*"))
    if packed and not Path(name).expanduser().exists():
        raise unknown("classifier", source, packed)
    network, config = load_classifier(name, model.device)
    method, kind = model.denoiser.method, model.config.method
    check_classifier(config, name, method, kind, model.tokenizer.fingerprint)
    if dcbg is not None and method.gaussian() is not None:
        raise UserError(f"--dcbg is for discrete guidance; {kind} is guided by a gradient.")
    if dcbg not in (None, *DCBG):
        raise unknown("dcbg", str(dcbg), DCBG)
    wanted = network.log_probability(config.taught.number(target))
    return guide_for(method, wanted, weight, reveal=reveal, first_order=dcbg != "exact"), network, config
