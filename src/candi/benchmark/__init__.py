"""How fast, how much memory, and against what: `candi bench train` and `candi bench sample`."""
