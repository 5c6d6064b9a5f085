"""The tab where molecules are drawn, and a classifier says which way to go."""

from collections.abc import Iterator
from typing import Any

import gradio as gr

from candi.base.errors import UserError
from candi.data.molecules import PROPERTIES
from candi.demo import html
from candi.demo.model_store import MOLECULES, STEPS, ModelStore, real, whole
from candi.diffusion.guidance import Guidance, guide_for
from candi.evaluation.sequences import measured as measure
from candi.model.classifiers import load_classifier
from candi.model.model import Model
from candi.views import plots
from candi.views.sequences import picture

_NOBODY = "nobody"


def tab(store: ModelStore) -> None:
    names = store.molecules()
    classifiers, advice = (
        [_NOBODY, *(classifier.label for classifier in store.classifiers_of(names[0]))],
        store.model(names[0]).recommended,
    )
    with gr.Row():
        with gr.Column(scale=1, min_width=280):
            model = gr.Dropdown(
                names, value=names[0], label="Model", info="Those that ship, and what the page was started with."
            )
            classifier = gr.Dropdown(
                classifiers,
                value=classifiers[min(1, len(classifiers) - 1)],
                label="Guided by",
                info="A classifier and its rule.",
            )
            wanted = gr.Radio(["more", "less"], value="more", label="Wanted", info="More or less of the property.")
            weight = gr.Slider(0, 40, 5, step=0.5, label="Guidance weight", info="How much the classifier counts.")
            measured = gr.Dropdown(list(PROPERTIES), value="qed", label="Property", info="What is measured and shown.")
            steps = gr.Slider(1, STEPS, advice["steps"], step=1, label="Steps", info="Evaluations of the network.")
            temperature = gr.Slider(0.1, 1.5, advice["temperature"], step=0.05, label="Temperature",
                                    info="Below 1 is safer.")  # fmt: skip
            count = gr.Slider(4, MOLECULES, 32, step=4, label="Samples", info="Those that are molecules are drawn.")
            seed = gr.Number(0, precision=0, label="Seed", info="The same seed makes the same molecules again.")
        with gr.Column(scale=2, min_width=320):
            make = gr.Button("Make molecules", variant="primary")
            least = gr.Slider(0, 1, 0, step=0.01, label="Show from this much of the property on",
                              info="As a share of the range of what was made.")  # fmt: skip
            shown = gr.HTML("", elem_id="molecules")
    made = gr.State([])
    inputs = [model, classifier, wanted, weight, measured, steps, temperature, count, seed, least]

    def run(*values: Any) -> Iterator[tuple[str, Any]]:
        yield from _make(store, *values)

    make.click(run, inputs, [shown, made], concurrency_id="model", api_visibility="private")
    least.change(_shown, [made, least], shown, show_progress="hidden", api_visibility="private")
    model.change(lambda name: _chosen(store, name), model, [classifier, steps, temperature], api_visibility="private")


def _chosen(store: ModelStore, name: str) -> list[Any]:
    """Another model has other classifiers, and recommends other settings."""
    classifiers, advice = [_NOBODY, *(one.label for one in store.classifiers_of(name))], store.model(name).recommended
    return [gr.Dropdown(choices=classifiers, value=_NOBODY), gr.Slider(value=advice["steps"]),
            gr.Slider(value=advice["temperature"])]  # fmt: skip


def _make(
    store: ModelStore, name: Any, classifier: Any, wanted: Any, weight: Any, measured: Any, steps: Any,
    temperature: Any, count: Any, seed: Any, least: Any,
) -> Iterator[tuple[str, Any]]:  # fmt: skip
    try:
        model = store.model(name)
        if measured not in PROPERTIES:
            raise UserError("This page measures no such property; choose one from the list.")
        guide = _guide(store, model, name, classifier, wanted, real(weight, "The weight", 0, 100))
        n = whole(count, "The number of samples", 1, MOLECULES)
        options: dict[str, Any] = {
            "steps": whole(steps, "The number of steps", 1, STEPS),
            "temperature": real(temperature, "The temperature", 0.05, 5.0),
            "seed": whole(seed, "The seed", 0, 2**53),
        }
        planned = model.planned_steps(model.template().known, options)
        trajectory = model.trajectory(n, guide=guide, **options)
        for done, step in enumerate(store.one_by_one(trajectory)):  # noqa: B007 - the last one counts
            yield f'<p class="soft">Making molecules: step {done} of {planned}</p>', []
        texts = [model.tokenizer.decode(row) for row in model.denoiser.method.decode(step.state).tolist()]
        found = measure(texts, [measured])
        valid = [text for text in found.texts if text is not None]
        rows = list(dict(zip(valid, found.values[measured], strict=True)).items())
        made = [n, found.valid, rows, measured]
        yield _shown(made, least), made
    except UserError as error:
        yield html.alert(str(error)), []


def _guide(store: ModelStore, model: Model, name: str, classifier: Any, wanted: Any, weight: float) -> Guidance | None:
    if classifier == _NOBODY or weight == 0:
        return None
    fitting = {one.label: one.folder for one in store.classifiers_of(name)}
    if classifier not in fitting:
        raise UserError("This page has no such classifier for the model; choose one from the list.")
    network, _ = load_classifier(fitting[classifier], model.device)
    return guide_for(model.denoiser.method, network.log_probability(int(wanted != "less")), weight)


def _shown(made: Any, least: Any) -> str:
    """The molecules from a share of the range on, and where all of them lie."""
    if not made:
        return ""
    n, valid, rows, measured = made
    if not rows:
        return html.alert(f"None of the {n} samples is a molecule; try a lower temperature or weight, or more steps.")
    values = [value for _, value in rows]
    low, high = min(values), max(values)
    from_here = low + (high - low) * real(least, "The share", 0, 1)
    cards = [
        _card(text, value, measured) for text, value in sorted(rows, key=lambda row: -row[1]) if value >= from_here
    ]
    summary = (
        f"{valid:.0%} of {n} samples are molecules, {len(rows)} different ones; mean {measured} "
        f"{sum(values) / len(values):.3f}; {len(cards)} shown"
    )
    chart = html.picture(plots.histogram(values, measured, from_here), f"Histogram of {measured}")
    return f'<p class="soft">{html.escaped(summary)}</p>{chart}<div class="grid">{"".join(cards)}</div>'


def _card(smiles: str, value: float, measured: str) -> str:
    shown = html.escaped(smiles)
    caption = f"<figcaption>{shown}<br>{measured} {value:.3f}</figcaption>"
    return f'<figure><img alt="{shown}" src="{picture(smiles)}">{caption}</figure>'
