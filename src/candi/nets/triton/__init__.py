"""GPU kernels of the last layer: what launches them, and the kernels."""
