"""A model's card as a page, with the head that the hub reads."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from candi.base.markdown import table

Card = Mapping[str, Any]


def model_card(card: Card, config: Card) -> str:
    """`card` is what card.json holds, `config` what config.json does."""
    licence = json.dumps(card["licence"])  # quoted, as YAML wants it
    parts = [
        f"---\nlibrary_name: candi\nlicense: other\nlicense_name: {licence}\ntags: [discrete-diffusion]\n---",
        f"# {card['name']}\n\n{card['title']}",
        "Written by `candi export`; every number in it was measured.",
        _what(card, config),
    ]
    if card["training"]:
        parts.append(_training(card["training"]))
    if card["recommended"]:
        advice = ", ".join(f"{key} {value}" for key, value in card["recommended"].items())
        parts.append(f"Recommended for sampling, and what `candi sample {card['name']}` does by itself: {advice}.")
    if card["classifiers"]:
        parts.append(_classifiers(card["name"], card["classifiers"]))
    if "known_molecules" in card:
        known = card["known_molecules"]
        parts.append(
            f"It knows {known['count']:,} molecules, as {known['speller']} spells them, by a filter: `candi guide "
            f"{card['name']}` says which ones are new. One new molecule in a thousand is taken for a known one."
        )
    if card["measures"]:
        parts.append("## Measures\n\n" + _rows(card["measures"]))
    return "\n\n".join(parts) + "\n"


def _what(card: Card, config: Card) -> str:
    return (
        f"- Method: {card['method']}, with {json.dumps(config[card['method']])}\n"
        f"- Network: {config['trunk']}, with {json.dumps(config['model'])}; {card['parameters']:,} parameters, "
        f"{card['bytes'] / 1e6:.1f} MB in bf16\n"
        f"- Vocabulary: {config['vocab_size']} tokens; sequences of {config['length']}\n"
        f"- Data: {card['data']}\n- Licence: {card['licence']}\n- SHA-256 of the weights: `{card['sha256']}`"
    )


def _training(training: Card) -> str:
    loss = "" if training["valid_loss"] is None else f"; loss on held-out data {training['valid_loss']:.3f} nats"
    return (
        f"Trained for {training['steps']:,} steps of {training['batch_size']} x {training['length']} tokens "
        f"({training['tokens'] / 1e6:,.0f}M tokens), {training['minutes']:g} minutes on {training['device']} with "
        f"torch {training['torch']}{loss}."
    )


def _classifiers(name: str, classifiers: Mapping[str, Card]) -> str:
    """What guides it, each under the name that --classifier takes."""
    rows = [
        {
            "property": key, "positive": f"{one['label']}, at least {one['threshold']:g}", "kind": one["kind"],
            "parameters": f"{one['parameters']:,}", "MB": f"{one['bytes'] / 1e6:.1f}",
            **({} if one["steps"] is None else {"steps of training": f"{one['steps']:,}"}),
            **({} if one["area"] is None else {"area under the curve": f"{one['area']:.3f}"}),
            **({} if one["held_out"] is None else {"of held-out molecules": f"{one['held_out']:,}"}),
            "SHA-256": f"`{one['sha256'][:16]}…`",
        }
        for key, one in classifiers.items()
    ]  # fmt: skip
    example = f"`candi guide {name} --classifier {next(iter(classifiers))} --weight 2` is guided by one of them."
    noises = {one["noise"] for one in classifiers.values()}
    reads = "clean molecules alone" if noises == {None} else "molecules under the model's own noise"
    return f"## Classifiers\n\nThey read {reads}. {example}\n\n" + _rows(rows)


def _rows(rows: Sequence[Card]) -> str:
    head = list(dict.fromkeys(key for row in rows for key in row))
    return table([key.replace("_", " ") for key in head], [[str(row.get(key, "")) for key in head] for row in rows])
