"""Networks: the trunk, the lazy prediction, the denoiser that joins them, and the exact one."""
