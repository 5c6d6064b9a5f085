"""What of an experiment is done, where it was done and how long it took: a line of JSON for each finished stage."""

import json
from pathlib import Path
from typing import Any

from candi.base.errors import UserError
from candi.base.files import write_text

Entry = dict[str, Any]


class Ledger:
    """A stage is named by what it is and the run it belongs to; done again, its new entry replaces the old one."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def entries(self) -> list[Entry]:
        if not self.path.exists():
            return []
        try:
            found = [json.loads(line) for line in self.path.read_text(encoding="utf-8").splitlines()]
            for entry in found:
                entry["stage"], entry["run"], entry["plan"]
            return found
        except (ValueError, KeyError, TypeError, RecursionError):
            raise UserError(f"{self.path} is damaged; restore it, or delete it to begin anew.") from None

    def find(self, stage: str, run: str) -> Entry | None:
        return next((entry for entry in self.entries() if (entry["stage"], entry["run"]) == (stage, run)), None)

    def done(self, stage: str, run: str, plan: str) -> bool:
        """Finished, and by the same plan."""
        entry = self.find(stage, run)
        return entry is not None and entry["plan"] == plan

    def write(self, stage: str, run: str, plan: str, **values: Any) -> None:
        others = [entry for entry in self.entries() if (entry["stage"], entry["run"]) != (stage, run)]
        entries = [*others, {"stage": stage, "run": run, "plan": plan, **values}]
        write_text(self.path, "".join(json.dumps(entry) + "\n" for entry in entries))
