"""The theory as code: states, schedules, spaces, kernels, predictions, methods, samplers, guidance. No network."""
