"""From noise to tokens: the loop, and the ways to take one step of it."""
