"""The theory that explains the methods."""
