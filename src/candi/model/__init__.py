"""A trained network with its tokenizer: sampling, its files, its checkpoints, its classifiers."""

from candi.model.model import Model

__all__ = ["Model"]
