"""How fast training, sampling and guidance are, how much memory they need, and against what."""
