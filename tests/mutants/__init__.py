"""Mutants: one small change of a formula at a time, which some test must notice. `make mutants` runs it."""
