"""Experiments as files: from data to figure and verdict."""
