"""Token identifiability, under one roof: closed forms and, beside each, its simulation."""

from candi.diffusion.identifiability.closed_form import (
    corruption,
    corruption_from,
    network_rank,
    rank,
    rank_embedding,
    sigma_of_corruption,
    sigma_of_rank,
    survival,
    win_rate,
)
from candi.diffusion.identifiability.embeddings import corruption_embedding
from candi.diffusion.identifiability.simulate import (
    Simulated,
    simulate,
    simulate_from,
    simulate_network,
    simulate_table,
    simulate_win_rate,
)

__all__ = [
    "Simulated",
    "corruption",
    "corruption_embedding",
    "corruption_from",
    "network_rank",
    "rank",
    "rank_embedding",
    "sigma_of_corruption",
    "sigma_of_rank",
    "simulate",
    "simulate_from",
    "simulate_network",
    "simulate_table",
    "simulate_win_rate",
    "survival",
    "win_rate",
]
