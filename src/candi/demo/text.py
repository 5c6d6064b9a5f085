"""The tab where text comes out of the noise."""

import time
from collections.abc import Iterator
from typing import Any

import gradio as gr

from candi.base.errors import UserError
from candi.demo import html
from candi.demo.model_store import LENGTH, STEPS, ModelStore, real, whole
from candi.views.frames import frames

_ADVISED = "as the model recommends"
_PAUSE = 0.05  # seconds a state stays at least: small models are faster than the eye
_TYPED = 20_000  # characters of a prompt or a template
_OPTIONS = 5  # drop-downs for the options of a method's step


def tab(store: ModelStore) -> None:
    names = store.texts()
    first = store.model(names[0])
    with gr.Row():
        with gr.Column(scale=1, min_width=280):
            model = gr.Dropdown(
                names, value=names[0], label="Model", info="What ships, and what the page was started with."
            )
            about = gr.HTML(_about(store, names[0]))
            prompt = gr.Textbox(
                "", label="Prompt", info="The text begins with this. May be empty.", max_length=_TYPED, elem_id="prompt"
            )
            template = gr.Textbox("", label="Template", info="Instead of a prompt: each _ is a token to fill.",
                                  max_length=_TYPED, elem_id="template")  # fmt: skip
            steps = gr.Slider(1, STEPS, first.recommended["steps"], step=1, label="Steps",
                              info="Evaluations of the network. More are slower and better.")  # fmt: skip
            temperature = gr.Slider(0.1, 1.5, first.recommended["temperature"], step=0.05, label="Temperature",
                                    info="Below 1 is safer, above 1 wilder.")  # fmt: skip
            length = gr.Slider(8, LENGTH, min(LENGTH, first.config.length), step=8, label="Length",
                               info="Tokens of the text. A template has its own length.")  # fmt: skip
            seed = gr.Number(0, precision=0, label="Seed", info="The same seed writes the same text again.")
            options = [gr.Dropdown(**option) for option in _options(store, names[0])]
        with gr.Column(scale=2, min_width=320):
            with gr.Row():
                write = gr.Button("Write", variant="primary")
                stop = gr.Button("Stop")
            shown = gr.HTML("", elem_id="trajectory")
            result = gr.Textbox(label="Text", interactive=False, lines=4, buttons=["copy"], elem_id="result")
    inputs = [model, prompt, template, steps, temperature, length, seed, *options]

    def run(*values: Any) -> Iterator[tuple[str, str]]:
        yield from _write(store, *values)

    event = write.click(run, inputs, [shown, result], concurrency_id="model", api_visibility="private")
    stop.click(None, cancels=[event], api_visibility="private")
    outputs = [about, steps, temperature, length, *options]
    model.change(lambda name: _chosen(store, name), model, outputs, api_visibility="private")


def _write(
    store: ModelStore, name: Any, prompt: Any, template: Any, steps: Any, temperature: Any, length: Any, seed: Any,
    *chosen: Any,
) -> Iterator[tuple[str, str]]:  # fmt: skip
    """Every state as it is made, and at the end the text."""
    try:
        model = store.model(name)
        method = model.denoiser.method
        wanted = dict(zip(method.options, chosen, strict=False))
        if max(len(str(prompt or "")), len(str(template or ""))) > _TYPED:
            raise UserError(f"At most {_TYPED:,} characters can be typed on this page; shorten the text.")
        given: dict[str, Any] = {
            "steps": whole(steps, "The number of steps", 1, STEPS),
            "temperature": real(temperature, "The temperature", 0.05, 5.0),
            "seed": whole(seed, "The seed", 0, 2**53),
            "prompt": str(prompt or "") or None,
            "infill": str(template or "") or None,
            **{option: value for option, value in wanted.items() if value not in (None, _ADVISED)},
        }
        if given["infill"] is None or model.rows:
            given["length"] = whole(length, "The length", 1, LENGTH)
        elif len(model.template(infill=given["infill"]).tokens) > LENGTH:
            raise UserError(f"The template has more than {LENGTH} tokens; shorten it.")
        for frame in store.one_by_one(frames(model, given, 0)):
            yield html.trajectory(frame), ""
            time.sleep(_PAUSE)
        yield html.trajectory(frame), frame.text
    except UserError as error:
        yield html.alert(str(error)), ""


def _about(store: ModelStore, name: str) -> str:
    model = store.model(name)
    size = sum(parameter.numel() for parameter in model.denoiser.parameters())
    method, vocabulary = model.config.method, model.config.vocab_size
    about = f"{method}, {size / 1e6:.1f}M parameters, {vocabulary:,} tokens, trained at length {model.config.length}"
    return f'<p class="soft">{html.escaped(about)}</p>'


def _options(store: ModelStore, name: str) -> list[dict[str, Any]]:
    """What the drop-downs are for this model's method."""
    known = list(store.model(name).denoiser.method.options.items())[:_OPTIONS]
    shown = [
        {"choices": [_ADVISED, *values], "value": _ADVISED, "label": option.capitalize(), "visible": True,
         "info": "How the method takes its steps."}
        for option, values in known
    ]  # fmt: skip
    hidden = {"choices": [_ADVISED], "value": _ADVISED, "label": "Option", "visible": False, "info": ""}
    return shown + [hidden] * (_OPTIONS - len(shown))


def _chosen(store: ModelStore, name: str) -> list[Any]:
    """The other controls, once another model is chosen."""
    advice, length = store.model(name).recommended, min(LENGTH, store.model(name).config.length)
    return [_about(store, name), advice["steps"], advice["temperature"], length,
            *(gr.Dropdown(**option) for option in _options(store, name))]  # fmt: skip
