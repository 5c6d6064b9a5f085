"""Training on one device or many, with nothing lost when it is interrupted."""
