"""candi trace"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jsonargparse import Namespace

from candi.classifiers import check_classifier, load_classifier
from candi.cli.parsing import parse, parser
from candi.cli.walking import WALK, add_walk, method_options
from candi.errors import UserError
from candi.guidance import Guidance, guide_for
from candi.loading import load, locate
from candi.model import Model
from candi.report.trace import Panel, write_page
from candi.sampling.trace import trace
from candi.shipped import classifier_of


def run(arguments: Sequence[str]) -> None:
    flags = parser("trace", "RUN [OTHER] --out trace.html", "Write a page that plays one walk from noise to text.")
    flags.add_argument("runs", type=str, nargs="+", help="A run or a model that ships; two are shown side by side.")
    flags.add_argument("--out", type=Path, default=Path("trace.html"), help="The page.")
    add_walk(flags)
    flags.add_argument("--alternatives", type=int, default=5, help="Tokens shown for each position.")
    flags.add_argument("--classifier", type=str | None, default=None, help="Guided by it, beside unguided: a folder, "
                       "or the property of one that came with the model.")  # fmt: skip
    flags.add_argument("--target", type=int, default=1, help="The label that is wanted of it.")
    flags.add_argument("--weight", type=float, default=1.0, help="How much the classifier counts.")
    flags.add_argument("--reveal", type=float, default=0.0, help="How much it tilts revealed tokens.")
    flags.add_argument("--device", type=str, default="auto", help="auto, cpu or cuda.")
    given = parse(flags, arguments)
    if len(given.runs) > 2 or (len(given.runs) == 2 and given.classifier):
        raise UserError("Two walks fit side by side: two runs, or one run guided and unguided.")
    if given.alternatives < 1:
        raise UserError(f"--alternatives must be at least 1, not {given.alternatives}.")
    models = [load(run, given.device) for run in given.runs]
    for name in method_options():
        if given[name] is not None and not any(name in model.denoiser.method.options for model in models):
            raise UserError(f"No run here has the sampling option {name!r}; leave out --{name}.")
    panels = [_panel(given, run, model) for run, model in zip(given.runs, models, strict=True)]
    if given.classifier:
        panels.append(_panel(given, given.runs[0], models[0], guided=True))
    try:
        write_page(given.out, panels)
    except OSError as error:
        raise UserError(f"{given.out} cannot be written ({error}); choose another --out.") from None
    print(f"Open {given.out} in a browser.", file=sys.stderr)


def _panel(given: Namespace, run: str, model: Model, guided: bool = False) -> Panel:
    method = model.denoiser.method
    own = [name for name in method_options() if name in method.options]
    options: dict[str, Any] = {name: given[name] for name in (*WALK, *own)}
    settled = model.settled(**options)
    about = f"{settled['steps']} steps, temperature {settled['temperature']:g}, seed {given.seed}"
    if guided:
        options["guide"] = _guide(given, model)
        about += f", guided by {Path(given.classifier).name}, weight {given.weight:g}"
    moments = list(trace(model, options, alternatives=given.alternatives))
    return Panel(Path(run).name or run, f"{model.config.method}, {about}", moments, model.tokenizer)


def _guide(given: Namespace, model: Model) -> Guidance:
    source = classifier_of(locate(given.runs[0]), given.classifier)
    network, config = load_classifier(source, model.device)
    method = model.denoiser.method
    check_classifier(config, source, method, model.config.method, model.tokenizer.fingerprint)
    return guide_for(method, network.log_probability(given.target), given.weight, reveal=given.reveal)
