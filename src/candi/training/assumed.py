"""What many devices need, by what one of them needs: the part of an estimate that is not measured."""

from dataclasses import dataclass

_WIRE = 10e9  # bytes a second between two devices, as of a network of 100 Gbit/s
_FLOAT = 4  # bytes: weights, gradients, averages and moments are float32
_KEPT = 5  # of them for each parameter: weight, gradient, average, two moments


@dataclass(frozen=True)
class Devices:
    """So many devices, as copies of the model or as pieces of it; `largest` are the parameters gathered at once."""

    count: int
    pieces: bool
    parameters: int
    largest: int

    def memory(self, alone: int) -> int:
        """Bytes at the peak of each, from those of one that holds all of the model and has as many sequences."""
        if not self.pieces:
            return alone + _FLOAT * self.parameters  # DDP collects the gradients in buckets of its own
        elsewhere = _KEPT * _FLOAT * self.parameters * (self.count - 1) // self.count
        return alone - elsewhere + 2 * _FLOAT * self.largest  # a unit in use and the next one

    @property
    def sent(self) -> float:
        """Bytes that each sends in a step: gradients reduced and spread; pieces of weights gathered twice as well."""
        times = 3 if self.pieces else 2
        return times * _FLOAT * self.parameters * (self.count - 1) / self.count

    @property
    def seconds(self) -> float:
        """What that takes where nothing else is done meanwhile."""
        return self.sent / _WIRE

    def said(self, share: int) -> str:
        """What of an estimate is measured and what is assumed."""
        how = "its part of weights, averages and moments, and two units gathered" if self.pieces else (
            "a second copy of the gradients")  # fmt: skip
        return (
            f"{self.count}. Measured: one device here with its {share} sequences of a step. Assumed: {self.count} such "
            f"devices; memory for {how}; {self.sent / 1e6:,.0f} MB sent by each a step, at {_WIRE / 1e9:.0f} GB/s and "
            f"not hidden by computing, {self.seconds:.3f} s of each step"
        )
