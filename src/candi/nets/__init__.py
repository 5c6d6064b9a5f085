"""Networks: trunks and their registry, the head, the denoiser that joins them to a method, the exact posterior."""
