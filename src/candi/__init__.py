"""Diffusion on discrete data."""
