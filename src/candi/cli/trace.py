"""candi trace"""

import sys
from collections.abc import Sequence
from pathlib import Path

from jsonargparse import Namespace

from candi.base.errors import UserError
from candi.cli.parsing import add_device, parse, parser
from candi.cli.sampling_flags import add_classifier, add_sampling, method_options, sampling_options
from candi.hub.loading import load, load_guide, locate
from candi.model.model import Model
from candi.model.trace import trace
from candi.views.trace import Panel, write_page


def run(arguments: Sequence[str]) -> None:
    flags = parser(
        "trace", "RUN [OTHER] --out trace.html", "Write a page that plays one trajectory from noise to text."
    )
    flags.add_argument("runs", type=str, nargs="+", help="A run or a model that ships; two are shown side by side.")
    flags.add_argument("--out", type=Path, default=Path("trace.html"), help="The page.")
    add_sampling(flags)
    flags.add_argument("--alternatives", type=int, default=5, help="Tokens shown for each position.")
    add_classifier(flags)
    add_device(flags)
    given = parse(flags, arguments)
    if len(given.runs) > 2 or (len(given.runs) == 2 and given.classifier):
        raise UserError("Two trajectories fit side by side: two runs, or one run guided and unguided.")
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
    options = {
        name: value
        for name, value in sampling_options(given).items()
        if name not in method_options() or name in method.options
    }
    complete = model.with_defaults(**options)
    about = f"{complete['steps']} steps, temperature {complete['temperature']:g}, seed {given.seed}"
    if guided:
        options["guide"], _, _ = load_guide(
            given.classifier, model, locate(run), given.target, given.weight, reveal=given.reveal
        )
        about += f", guided by {Path(given.classifier).name}, weight {given.weight:g}"
    steps = list(trace(model, options, alternatives=given.alternatives))
    return Panel(Path(run).name or run, f"{model.config.method}, {about}", steps, model.tokenizer)
