"""The diffusion transformer that SEDD, MDLM, DUO, BD3-LM and CANDI publish, in the names of ours.

Theirs has a weight n on each norm and ours has none: norm(h) n (1 + s) + b = norm(h) (1 + s') + b with
s' = n (1 + s) - 1, and s is linear in the conditioning, so n goes into the layer that makes it.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from candi.base.errors import UserError
from candi.hub.importers.source import Source
from candi.nets.dit import DiTSettings

_IGNORED = ("rotary_emb.inv_freq", "sampling_eps_min", "sampling_eps_max")  # constants that are computed
_NEVER = -1e6  # the logit of a token that cannot be predicted, as they have it


@dataclass(frozen=True)
class PublishedDiT:
    """Its sizes; `rows` are those of the table of token vectors."""

    settings: DiTSettings
    rows: int
    prefix: str


def read_dit(source: Source, prefix: str, heads: int | None, dropout: float) -> PublishedDiT:
    """Sizes by the tensors' shapes; every tensor must be there, no other, each of its shape."""
    names = {name.replace("_orig_mod.", "") for name in source.tensors}
    table, clock = f"{prefix}vocab_embed.embedding", f"{prefix}sigma_map.mlp.0.weight"
    for name in (table, clock):
        if name not in source.tensors or source.tensors[name].dim() != 2:
            raise UserError(f"{source.name} has no {name} of two dimensions: it is no checkpoint of this layout.")
    rows, width = source.tensors[table].shape
    conditioning = source.tensors[clock].shape[0]
    blocks = len({name.split(".")[prefix.count(".") + 1] for name in names if name.startswith(f"{prefix}blocks.")})
    if heads is None:
        raise UserError(f"{source.name}: config.json does not say how many heads the network has (n_heads).")
    settings = DiTSettings(
        width=width, blocks=blocks, heads=heads, conditioning=conditioning, dropout=dropout, input_scale="one",
        time_waves="sinusoidal",
    )  # fmt: skip
    found = PublishedDiT(settings, rows, prefix)
    expected = _shapes(found)
    present = {name: tensor for name, tensor in source.tensors.items() if name.removeprefix(prefix) not in _IGNORED}
    wrong = sorted(expected.keys() ^ present.keys()) or [
        name for name, shape in expected.items() if tuple(present[name].shape) != shape
    ]
    if wrong:
        more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        raise UserError(f"{source.name}: {', '.join(wrong[:3])}{more} missing, unexpected or of another shape.")
    return found


def check_sizes(source: Source, found: PublishedDiT, **said: int | None) -> None:
    """What config.json says of sizes must be what the tensors have; what it does not say is None."""
    has = {"width": found.settings.width, "blocks": found.settings.blocks, "rows": found.rows,
           "conditioning": found.settings.conditioning}  # fmt: skip
    for name, size in said.items():
        if size is not None and size != has[name]:
            raise UserError(f"{source.name}: config.json says {size} for the {name}, the tensors have {has[name]}.")


def our_weights(source: Source, found: PublishedDiT, vocab_size: int, mask: int | None) -> dict[str, Tensor]:
    """Weights by our names.

    `mask` is the row that a masked position shows. Rows from `vocab_size` on are no tokens; a mask among the tokens
    keeps its row and is never predicted.
    """
    theirs = {name.removeprefix(found.prefix): tensor.float() for name, tensor in source.tensors.items()}
    table, head, bias = (
        theirs[name] for name in ("vocab_embed.embedding", "output_layer.linear.weight", "output_layer.linear.bias")
    )
    weights = {"method.embedding.weight": table[:vocab_size]}
    if mask is not None:
        weights["method.embedding.mask"] = table[mask].clone()
    head, bias = head[:vocab_size].clone(), bias[:vocab_size].clone()
    if mask is not None and mask < vocab_size:
        head[mask], bias[mask] = 0.0, _NEVER
    weights |= {"head.weight": head, "head.bias": bias}
    for layer in ("mlp.0", "mlp.2"):
        for kind in ("weight", "bias"):
            weights[f"trunk.timestep_embedder.{layer}.{kind}"] = theirs[f"sigma_map.{layer}.{kind}"]
    for index in range(found.settings.blocks):
        block, ours = f"blocks.{index}", f"trunk.blocks.{index}"
        weights[f"{ours}.attention.qkv.weight"] = theirs[f"{block}.attn_qkv.weight"]
        weights[f"{ours}.attention.out.weight"] = theirs[f"{block}.attn_out.weight"]
        for layer in ("mlp.0", "mlp.2"):
            for kind in ("weight", "bias"):
                weights[f"{ours}.{layer}.{kind}"] = theirs[f"{block}.{layer}.{kind}"]
        norms = {1: theirs[f"{block}.norm1.weight"], 4: theirs[f"{block}.norm2.weight"]}  # places of the scales
        weights |= _with_norms(f"{ours}.adaptive", theirs, f"{block}.adaLN_modulation", 6, norms)
    norm = {1: theirs["output_layer.norm_final.weight"]}
    return weights | _with_norms("trunk.final", theirs, "output_layer.adaLN_modulation", 2, norm)


def _with_norms(
    ours: str, theirs: dict[str, Tensor], name: str, parts: int, norms: dict[int, Tensor]
) -> dict[str, Tensor]:
    """The layer that makes shifts, scales and gates, with a norm's weight in each of its scales."""
    weight, bias = theirs[f"{name}.weight"].chunk(parts), theirs[f"{name}.bias"].chunk(parts)
    folded = [
        (w, b) if place not in norms else (norms[place][:, None] * w, norms[place] * (1 + b) - 1)
        for place, (w, b) in enumerate(zip(weight, bias, strict=True))
    ]
    return {f"{ours}.weight": torch.cat([w for w, _ in folded]), f"{ours}.bias": torch.cat([b for _, b in folded])}


def _shapes(found: PublishedDiT) -> dict[str, tuple[int, ...]]:
    """Of all tensors by their names."""
    width, clock, rows = found.settings.width, found.settings.conditioning, found.rows
    shapes: dict[str, tuple[int, ...]] = {"vocab_embed.embedding": (rows, width)}
    layers = {
        "sigma_map.mlp.0": (clock, 256), "sigma_map.mlp.2": (clock, clock),
        "output_layer.linear": (rows, width), "output_layer.adaLN_modulation": (2 * width, clock),
    }  # fmt: skip
    shapes["output_layer.norm_final.weight"] = (width,)
    for index in range(found.settings.blocks):
        block = f"blocks.{index}"
        shapes |= {
            f"{block}.norm1.weight": (width,), f"{block}.norm2.weight": (width,),
            f"{block}.attn_qkv.weight": (3 * width, width), f"{block}.attn_out.weight": (width, width),
        }  # fmt: skip
        layers |= {
            f"{block}.mlp.0": (4 * width, width), f"{block}.mlp.2": (width, 4 * width),
            f"{block}.adaLN_modulation": (6 * width, clock),
        }  # fmt: skip
    for name, shape in layers.items():
        shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    return {found.prefix + name: shape for name, shape in shapes.items()}
