"""SEDD with absorbing noise as its authors publish it: masked diffusion with a clock."""

from collections.abc import Mapping
from typing import Any

from candi.base.errors import UserError
from candi.diffusion.methods import MdlmSettings
from candi.hub.importers.dit import check_sizes, our_weights, read_dit
from candi.hub.importers.imported import Imported, Importer
from candi.hub.importers.source import Source
from candi.nets.config import ModelConfig


class SeddImporter(Importer):
    name = "sedd"
    about = "louaaron/sedd-small and sedd-medium (absorbing)"
    tokenizer = "hf:openai-community/gpt2"

    def recognises(self, config: Mapping[str, Any]) -> bool:
        return isinstance(config.get("graph"), Mapping) and isinstance(config.get("noise"), Mapping)

    def convert(self, source: Source, mask: int | None = None) -> Imported:
        """The score p_t(y)/p_t(z) of a masked position is p(x0 = y | z) / (exp(sigma) - 1): the network's logits,

        normalised, are the posterior of masked diffusion.
        """
        if not self.recognises(source.config):
            raise UserError(f"{source.name}: config.json has no tables graph and noise, as SEDD's has.")
        graph, noise = source.config["graph"].get("type"), source.config["noise"].get("type")
        if graph != "absorb" or noise != "loglinear":
            raise UserError(
                f"{source.name} has {graph} states and {noise} noise; only absorbing ones with loglinear noise can be "
                "imported."
            )
        model = source.config.get("model")
        if not isinstance(model, Mapping):
            raise UserError(f"{source.name}: config.json has no table `model` with the sizes of the network.")
        network = read_dit(source, "", source.size("model.n_heads"), float(model.get("dropout", 0.0)))
        tokens, length = source.size("tokens"), source.size("model.length")
        check_sizes(
            source, network, width=source.size("model.hidden_size"), blocks=source.size("model.n_blocks"),
            rows=None if tokens is None else tokens + 1, conditioning=source.size("model.cond_dim"),
        )  # fmt: skip
        if length is None:
            raise UserError(f"{source.name}: config.json does not say how long its sequences are (model.length).")
        if mask not in (None, network.rows - 1):
            raise UserError(f"The mask of SEDD is the last row, {network.rows - 1}; leave out --mask.")
        vocab_size = network.rows - 1
        config = ModelConfig(vocab_size, length, "mdlm", MdlmSettings(clock=True), network.settings, unit_vectors=False)
        return Imported(
            config, our_weights(source, network, vocab_size, vocab_size),
            "t = 0 is clean and t = 1 is masked; the network is told sigma = -log alpha(t), alpha(t) = 1 - 0.999 t. "
            "Its score is the masked posterior over exp(sigma) - 1; the posterior is normalised here, which theirs is "
            f"only as far as it was learned. The mask is row {vocab_size}, the last.",
        )  # fmt: skip
