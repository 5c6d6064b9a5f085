"""Checkpoints that are whole or absent.

A checkpoint is a folder: model.safetensors (averaged weights), config.json and tokenizer.json, which are enough to
sample; training.safetensors (weights and optimizer moments) and progress.json, which are needed to go on; and
manifest.json with a hash of each. It is written aside, flushed to disk and renamed. Where each process writes its part,
a list of shards and the shards stand for each file of tensors.
"""

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from candi.base.config import read_json
from candi.base.errors import UserError
from candi.base.files import sha256
from candi.base.shards import index_of, join
from candi.model.files import CONFIG, WEIGHTS

MANIFEST, CHECKPOINTS = "manifest.json", "checkpoints"
_NAME, _ASIDE = "step-{:08d}", ".writing-"
_SHARDS = ".shards.json"


def write(parent: Path, step: int, fill: Callable[[Path], None], keep: int) -> Path:
    """Let `fill` write the files of a checkpoint, then make it appear at once; older ones beyond `keep` go."""
    aside = begin(parent, step)
    try:
        fill(aside)
        return complete(aside, keep)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


def place_aside(parent: Path, step: int) -> Path:
    """Where a checkpoint is written before it appears."""
    return parent / f"{_ASIDE}{_NAME.format(step)}"


def begin(parent: Path, step: int) -> Path:
    """An empty folder for its files. What an earlier attempt has left goes."""
    aside = place_aside(parent, step)
    _remove(aside)
    aside.mkdir(parents=True)
    return aside


def complete(aside: Path, keep: int, known: Mapping[str, str] | None = None) -> Path:
    """Make a checkpoint whose files are all there appear at once. `known` are hashes of some, which are on the disk."""
    known, parent = known or {}, aside.parent
    new = [path for path in sorted(aside.iterdir()) if path.name not in known]
    hashes = {**known, **{path.name: sha256(path) for path in new}}
    write_manifest(aside, hashes)
    for path in (*new, aside / MANIFEST, aside):
        flush(path)
    final = parent / aside.name.removeprefix(_ASIDE)
    _remove(final)  # a damaged one of the same step
    os.replace(aside, final)
    flush(parent)
    for old in found(parent)[keep:]:
        _remove(old)
    return final


def _remove(path: Path) -> None:
    """A folder with what it holds; of a link the link alone, wherever it leads."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)


def write_manifest(folder: Path, hashes: Mapping[str, str]) -> None:
    (folder / MANIFEST).write_text(json.dumps(dict(sorted(hashes.items())), indent=2) + "\n", encoding="utf-8")


def joined(folder: Path, out: Path) -> None:
    """The checkpoint of a folder with each of its files whole, as one process would have written it."""
    if out.exists():
        raise UserError(f"{out} is there already; choose another --out.")
    aside = out.with_name(f"{_ASIDE}{out.name}")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    try:
        for path in sorted(folder.iterdir()):
            whole = path.with_name(path.name.replace(_SHARDS, ".safetensors"))
            if path == index_of(whole):
                join(whole, aside / whole.name)
            elif path.name != MANIFEST and not re.search(r"-\d+-of-\d+\.safetensors$", path.name):
                shutil.copyfile(path, aside / path.name)
        write_manifest(aside, {path.name: sha256(path) for path in aside.iterdir()})
        os.replace(aside, out)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


def found(parent: Path) -> list[Path]:
    """Checkpoints of a run, newest first, intact or not."""
    if not parent.is_dir():
        return []
    return sorted((p for p in parent.iterdir() if re.fullmatch(r"step-\d+", p.name)), reverse=True)


def intact(parent: Path, report: Callable[[str], None]) -> Iterator[Path]:
    """Checkpoints whose files are what was written, newest first; damaged ones are reported and passed over."""
    for folder in found(parent):
        damage = _damage(folder)
        if damage is None:
            yield folder
        else:
            report(f"The checkpoint {folder} is damaged ({damage}); the one before it is used, if there is one.")


def _damage(folder: Path) -> str | None:
    try:
        hashes = read_json(folder / MANIFEST)
    except UserError as error:
        return str(error)
    weights = {WEIGHTS, index_of(Path(WEIGHTS)).name}  # whole, or in shards
    if not isinstance(hashes, dict) or CONFIG not in hashes or not weights & hashes.keys():
        return f"{MANIFEST} is not what was written"
    for name, expected in hashes.items():
        path = folder / name
        if Path(name).name != name:  # what it names may lie anywhere, and be no file
            return f"{MANIFEST} names what is not in the folder"
        if not path.is_file():
            return f"{name} is missing"
        if sha256(path) != expected:
            return f"{name} is not what was written"
    return None


def kept(path: Path) -> str:
    """The hash of a file, once it is on the disk."""
    flush(path)
    return sha256(path)


def flush(path: Path) -> None:
    """To the disk itself, so that the rename is never seen before the content."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def find_checkpoint(folder: Path, report: Callable[[str], None]) -> Path | None:
    """The folder itself if it holds a model, else its newest intact checkpoint; None if it is neither.

    A model that has a manifest must be what was written; one that was packed or saved has none.
    """
    if (folder / CONFIG).exists():
        damage = _damage(folder) if (folder / MANIFEST).exists() else None
        if damage is not None:
            raise UserError(f"The checkpoint {folder} is damaged ({damage}); take another one of its run.")
        return folder
    if not (folder / CHECKPOINTS).is_dir():
        return None
    newest = next(intact(folder / CHECKPOINTS, report), None)
    if newest is None:
        raise UserError(f"{folder} has no intact checkpoint yet; let its training reach the first one.")
    return newest


def step_of(folder: Path) -> int | None:
    """How long the model of a checkpoint was trained; None of one that was packed."""
    number = folder.name.rpartition("step-")[2]
    return int(number) if number.isdecimal() else None


def to_stderr(text: str) -> None:
    print(text, file=sys.stderr)
