"""A page to play with, in the browser, served on this machine alone (extra: candi[demo])."""
