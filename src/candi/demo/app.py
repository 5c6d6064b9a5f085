"""The page: tabs, a fair queue, and nothing from outside this machine."""

import logging
import os
from contextlib import suppress
from threading import Event

os.environ.setdefault(
    "GRADIO_ANALYTICS_ENABLED", "False"
)  # before it is imported: no word of visitors leaves the machine
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

import gradio as gr
from starlette.middleware import Middleware

from candi.demo import html, molecules, text, theory
from candi.demo.model_store import ModelStore
from candi.demo.own_names import OwnNames

_WAITING = 32  # visitors in the queue; further ones are asked to come back
_HEAD = """# candi: watch a sentence come out of the noise

Masking decides which positions are still noisy; Gaussian noise covers them; at each step the network guesses all of
them and some are revealed. <span style="color:#1f77c4;font-weight:700">given</span>, clean,
<span style="background:#7bd88f;color:#0b1a0b">just revealed</span>,
<span style="color:#a06fb8">noisy and unsure</span>,
<span style="color:#b14be0;font-weight:700">noisy and nearly sure</span>."""


class Page:
    """A running page. Closing it frees the models."""

    def __init__(self, store: ModelStore, port: int | None = None) -> None:
        self.store = store
        with gr.Blocks(title="candi", analytics_enabled=False, delete_cache=(3600, 3600)) as self.blocks:
            gr.Markdown(_HEAD)
            with gr.Tab("Text"):
                text.tab(store)
            with gr.Tab("Molecules"):
                molecules.tab(store)
            with gr.Tab("Theory"):
                theory.tab()
        # one at a time, first come first served: networks share the device no better than visitors would
        self.blocks.queue(max_size=_WAITING, default_concurrency_limit=1, api_open=False)
        self.blocks.launch(
            server_name="127.0.0.1", server_port=port, share=False, prevent_thread_lock=True, quiet=True, css=html.CSS,
            theme=gr.themes.Base(font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"]),
            footer_links=[], ssr_mode=False, enable_monitoring=False, max_file_size="1kb",
            app_kwargs={"middleware": [Middleware(OwnNames)]},
        )  # fmt: skip

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.blocks.server_port}"

    def wait(self) -> None:
        """Until Ctrl-C."""
        with suppress(KeyboardInterrupt):
            Event().wait()

    def close(self) -> None:
        # uvicorn: tabs that are still open are not waited for, and to be cut off is no error
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        self.blocks.server.force_exit = True
        self.blocks.close(verbose=False)
        self.store.close()
