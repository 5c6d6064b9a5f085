"""Corruption and its reversal as pure functions, one equation each."""
