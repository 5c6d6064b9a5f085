"""What was measured: a table for the eye, JSON for the rest. Written anew after every row, so nothing is lost."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from candi.base.files import write_text
from candi.base.machine import machine
from candi_lab.bench.measure import Measured
from candi_lab.bench.settings import BenchSettings

_SHOWN = {
    "what": "", "batch": "", "length": "", "vocab_size": "V", "steps": "steps",
    "milliseconds": "ms", "tokens_per_second": "tokens/s", "memory_gb": "peak GB",
}  # fmt: skip


@dataclass
class Report:
    """Rows of one run of the benchmark."""

    path: Path
    machine: dict[str, Any]
    settings: dict[str, Any]
    rows: list[dict[str, Any]] = field(default_factory=list)
    findings: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, settings: BenchSettings) -> "Report":
        given = {"dtype": str(settings.dtype).removeprefix("torch."), "compiled": settings.compiled}
        sizes = {**asdict(settings.trunk), "length": settings.positions, "vocab_size": settings.vocab_size}
        return cls(settings.out, machine(settings.target), given | sizes)

    def resume(self) -> None:
        """Go on with what an earlier run of the same settings on such a machine has left in the file."""
        if self.path.exists():
            earlier = json.loads(self.path.read_text(encoding="utf-8"))
            if (earlier["machine"], earlier["settings"]) == (self.machine, self.settings):
                self.rows, self.findings = earlier["rows"], earlier["findings"]

    def __post_init__(self) -> None:
        self.console = Console(stderr=True, highlight=False)

    def add(self, what: str, measured: Measured, **sizes: Any) -> dict[str, Any]:
        """A row; `sizes` hold batch and length, whose product is what was made or learned from."""
        row = {
            "what": what,
            **sizes,
            "milliseconds": round(1e3 * measured.seconds, 3),
            "spread": round(measured.spread, 3),
            "tokens_per_second": round(sizes["batch"] * sizes["length"] / measured.seconds),
            "memory_gb": round(measured.memory / 1e9, 3),
        }
        self.rows.append(row)
        pace = f"{row['tokens_per_second']:,} tokens/s"
        line = f"{what:<58} {row['milliseconds']:>11,.1f} ms {pace:>22} {row['memory_gb']:>8.2f} GB"
        self.console.print(line, soft_wrap=True)
        self.write()
        return row

    def find(self, name: str, value: Any) -> None:
        """A conclusion from the rows: a ratio, a utilisation."""
        self.findings[name] = round(value, 4) if isinstance(value, float) else value
        self.console.print(f"  {name}: {self.findings[name]}", soft_wrap=True)
        self.write()

    def write(self) -> None:
        document = {
            "machine": self.machine,
            "settings": self.settings,
            "findings": self.findings,
            "rows": self.rows,
        }
        write_text(self.path, json.dumps(document, indent=1) + "\n")

    def show(self) -> None:
        """The table, on standard output."""
        table = Table(title=f"{self.machine['device']}, torch {self.machine['torch']}, {self.settings['dtype']}")
        for key, head in _SHOWN.items():
            table.add_column(head or key, justify="left" if key == "what" else "right", no_wrap=True)
        for row in self.rows:
            table.add_row(*(_text(row.get(key)) for key in _SHOWN))
        console = Console(width=None if Console().is_terminal else 140, highlight=False)
        console.print(table)
        for name, value in self.findings.items():
            console.print(f"{name}: {value}")


def _text(value: Any) -> str:
    if value is None:
        return ""
    return (
        f"{value:,.1f}" if isinstance(value, float) and value >= 10 else f"{value:,}" if value != str(value) else value
    )
