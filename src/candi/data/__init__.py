"""From files to batches of tokens."""
