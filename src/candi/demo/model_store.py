"""The models that a page may use, and how much it may ask of them."""

import math
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from candi.base.errors import UserError
from candi.hub.loading import load, locate
from candi.hub.shipped import shipped
from candi.model.classifiers import CLASSIFIERS, check_classifier, load_classifier
from candi.model.model import Model

LENGTH, STEPS, MOLECULES = 1024, 256, 64  # the most that a visitor may ask for
_HELD = 2  # models in memory at once
T = TypeVar("T")


@dataclass(frozen=True)
class FittingClassifier:
    """A classifier that fits a model: its folder and its rule."""

    folder: str
    label: str


class ModelStore:
    """Models by name: those that ship and those the page was started with. Nobody can name another one."""

    def __init__(self, runs: Sequence[str] = (), classifiers: Sequence[str] = (), device: str = "auto") -> None:
        own = [Path(run).name or run for run in runs]
        double = next((name for name in own if own.count(name) > 1), None)
        if double is not None:
            raise UserError(
                f"Two runs are called {double!r}; rename one of the folders, so that the page can name both."
            )
        self.sources = {name: str(folder) for name, folder in shipped().items()} | dict(zip(own, runs, strict=True))
        self.classifiers, self.device = tuple(classifiers), device
        self._held: OrderedDict[str, Model] = OrderedDict()
        self._lock, self._working, self._closed = Lock(), Lock(), False
        for run in runs:
            self.model(Path(run).name or run)  # a mistake shows before the page opens

    def model(self, name: object) -> Model:
        if not isinstance(name, str) or name not in self.sources:
            raise UserError("This page has no such model; choose one from the list.")
        with self._lock:
            if name not in self._held:
                self._held[name] = load(self.sources[name], self.device)
                while len(self._held) > _HELD:
                    self._held.popitem(last=False)
            self._held.move_to_end(name)
            return self._held[name]

    def texts(self) -> list[str]:
        return [name for name in self.sources if not self.model(name).tokenizer.framed]

    def molecules(self) -> list[str]:
        return [name for name in self.sources if self.model(name).tokenizer.framed]

    def classifiers_of(self, name: str) -> list[FittingClassifier]:
        """The classifiers that read what a model writes: those that came with it, those the page was started with."""
        model, found = self.model(name), []
        packed = locate(self.sources[name]) / CLASSIFIERS
        came = sorted(str(folder) for folder in packed.iterdir()) if packed.is_dir() else []
        for folder in (*came, *self.classifiers):
            _, config = load_classifier(folder, model.device)
            try:
                fingerprint = model.tokenizer.fingerprint
                check_classifier(config, folder, model.denoiser.method, model.config.method, fingerprint)
            except UserError:
                continue
            found.append(FittingClassifier(folder, config.label))
        labels = [one.label for one in found]
        return [
            one
            if labels.count(one.label) == 1
            else FittingClassifier(one.folder, f"{one.label} ({Path(one.folder).name})")
            for one in found
        ]

    def one_by_one(self, steps: Iterator[T]) -> Iterator[T]:
        """The steps of a trajectory, as long as the store is open."""
        while True:
            with self._working:
                if self._closed:
                    raise UserError("The page was closed.")
                step = next(steps, None)
            if step is None:
                return
            yield step

    def close(self) -> None:
        """Let go of all memory. The step that is under way is waited for, further ones are refused: a process that ends
        in the middle of one crashes."""
        with self._working, self._lock:
            self._closed = True
            self._held.clear()


def whole(value: Any, what: str, least: int, most: int) -> int:
    """A whole number from a page, which may send anything."""
    number = real(value, what, least, most)
    if number != int(number):
        raise UserError(f"{what} must be a whole number.")
    return int(number)


def real(value: Any, what: str, least: float, most: float) -> float:
    number = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
    if not least <= number <= most:
        raise UserError(f"{what} must be between {least:g} and {most:g} on this page.")
    return number
