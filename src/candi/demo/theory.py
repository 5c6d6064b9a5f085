"""The tab where vocabulary and noise move, and what they do to a token moves with them."""

from typing import Any

import gradio as gr

from candi.base.errors import UserError
from candi.demo import html
from candi.demo.model_store import real
from candi.diffusion import identifiability
from candi.views import plots


def tab() -> None:
    gr.Markdown(
        "Gaussian noise of size σ is added to the one-hot vector of a token. How often is the token no longer the "
        "largest entry (**corruption ρ**)? And which share of all other tokens looks likelier than it (**rank r**)?"
    )
    with gr.Row():
        power = gr.Slider(1, 18, 5, step=0.5, label="Vocabulary size, as a power of two",
                          info="5 is an alphabet, 16 the tokens of a language model.")  # fmt: skip
        sigma = gr.Slider(0.05, 3.0, 0.5, step=0.05, label="Noise σ", info="0 leaves the token as it is.")
    shown = gr.HTML(_shown(5, 0.5), elem_id="theory")
    for control in (power, sigma):
        control.change(_shown, [power, sigma], shown, show_progress="hidden", api_visibility="private")


def _shown(power: Any, sigma: Any) -> str:
    try:
        size = round(2 ** real(power, "The power", 1, 18))
        noise = real(sigma, "The noise", 0.01, 10)
    except UserError as error:
        return html.alert(str(error))
    rho, r = float(identifiability.corruption(noise, size)), float(identifiability.rank(noise))
    text = (
        f"<p>V = <b>{size:,}</b>, σ = <b>{noise:g}</b>: corruption ρ = <b>{rho:.3f}</b>, rank r = <b>{r:.3f}</b>, "
        f"dissonance ρ − 2r = <b>{rho - 2 * r:+.3f}</b></p><p class='soft'>ρ grows with the vocabulary, r does not. "
        "Where ρ is nearly 1 while r is small, a denoiser still gets a good hint, but no token can be read off: "
        "discrete structure and continuous signal are out of step. CANDI masks by a schedule of its own, so that both "
        "move together at any vocabulary size.</p>"
    )
    return text + html.picture(plots.dissonance(size, noise), f"Corruption and rank over the noise for V = {size}")
