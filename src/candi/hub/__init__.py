"""Models by name or path: loading, the ones that ship, packing a run to be shared."""
