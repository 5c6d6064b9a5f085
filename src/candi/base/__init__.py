"""What every room stands on: errors, files, shapes, random numbers, the machine."""
