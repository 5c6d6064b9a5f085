"""CANDI as its authors keep it: the settings and weights of a training checkpoint, written as safetensors."""

from collections.abc import Mapping
from typing import Any

from candi.base.errors import UserError
from candi.diffusion.methods import CandiSettings
from candi.hub.importers.dit import check_sizes, our_weights, read_dit
from candi.hub.importers.imported import Imported, Importer
from candi.hub.importers.source import Source
from candi.nets.config import ModelConfig


class CandiImporter(Importer):
    name = "candi"
    about = "checkpoints of the CANDI authors, as safetensors with their model and algo settings"

    def recognises(self, config: Mapping[str, Any]) -> bool:
        algorithm = config.get("algo")
        return isinstance(algorithm, Mapping) and algorithm.get("name") == "candi"

    def convert(self, source: Source, mask: int | None = None) -> Imported:
        """One-hot noise seen through unit rows, their scaling; ranks such that ours are theirs.

        Their error(sigma) = (V - 1)/V Phi(-1/(sigma sqrt 2)) rises from min_percentile to max_percentile: rank
        degradation is V/(V - 1) times that.
        """
        if not self.recognises(source.config):
            raise UserError(f"{source.name}: config.json has no table algo of the name candi, as the authors' has.")
        algorithm, model = source.config["algo"], source.config.get("model", {})
        for name in ("pure_continuous", "is_embed"):
            if algorithm.get(name):
                raise UserError(f"{source.name} is of the variant {name}, which is not imported; only the hybrid is.")
        if not algorithm.get("use_percentile_scheduling", True):
            raise UserError(f"{source.name} has noise that is not scheduled by percentiles; it cannot be imported.")
        network = read_dit(source, "backbone.", source.size("model.n_heads"), float(model.get("dropout", 0.0)))
        check_sizes(
            source, network, width=source.size("model.hidden_size"), blocks=source.size("model.n_blocks"),
            rows=source.size("vocab_size"), conditioning=source.size("model.cond_dim"),
        )  # fmt: skip
        vocab_size, length = network.rows - 1, source.size("model.length")
        if mask not in (None, vocab_size):
            raise UserError(f"The mask vector of CANDI is the last row, {vocab_size}; leave out --mask.")
        if length is None:
            raise UserError(f"{source.name}: config.json does not say how long its sequences are (model.length).")
        share = vocab_size / (vocab_size - 1)
        low, high = (_number(source, algorithm, name) * share for name in ("min_percentile", "max_percentile"))
        settings = CandiSettings(
            space="projected", rank_min=low, rank_max=high, bias_weight=_number(source, algorithm, "mixed_coeff"),
            precondition="paper", solver="euler",
            inference="approximate" if algorithm.get("sampler") == "cached" else "exact",
        )  # fmt: skip
        config = ModelConfig(vocab_size, length, "candi", settings, network.settings)
        return Imported(
            config, our_weights(source, network, vocab_size, vocab_size),
            "t = 0 is clean and t = 1 is noise; the network is told -log alpha(t), alpha(t) = 1 - 0.999 t, and sees "
            "the noise of the state it is given (their sampler tells it t itself, and the noise of the next time). The "
            f"mask vector is row {vocab_size}, the last; token vectors are used at length 1.",
        )  # fmt: skip


def _number(source: Source, table: Mapping[str, Any], name: str) -> float:
    value = table.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UserError(f"{source.name}: algo.{name} in config.json must be a number, not {value!r}.")
    return float(value)
