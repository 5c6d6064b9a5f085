"""Nodes for tests: machines that are network namespaces of this one, joined by a cable, or only so by name."""

import ctypes
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.training.runs import Forked, flags

_CABLES = "candi{0}a", "candi{0}b"
_SECONDS = 90


def enter(namespace: str) -> None:
    """Move this process, which has one thread, into a network namespace."""
    with open(f"/run/netns/{namespace}") as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), 0):
            raise OSError(ctypes.get_errno(), f"no namespace {namespace}")


@dataclass(frozen=True)
class Nodes:
    """Two machines. Without namespaces both are this one."""

    address: str = "127.0.0.1"
    namespaces: tuple[str, ...] = ("", "")
    interfaces: tuple[str, ...] = ("lo", "lo")
    caches: tuple[Path, ...] = ()
    started: list[Forked] = field(default_factory=list)

    def start(self, *outs: Path, on_each: int = 1, before: tuple[str, str] = ("", ""), **changes: Any) -> list[Forked]:
        """All processes of a run, as a launcher would start them, after some Python on each node. A second folder is
        what the second node takes for --out."""
        port = _free_port()
        processes = [
            self._process(outs[node % len(outs)], node, local, on_each, port, before[node], **changes)
            for node in range(2)
            for local in range(on_each)
        ]
        self.started.extend(processes)
        return processes

    def _process(
        self, out: Path, node: int, local: int, on_each: int, port: int, before: str, **changes: Any
    ) -> Forked:
        variables = {
            "MASTER_ADDR": self.address, "MASTER_PORT": str(port), "NODE_RANK": str(node), "LOCAL_RANK": str(local),
            "GLOO_SOCKET_IFNAME": self.interfaces[node], "CANDI_CACHE": str(self.caches[node]),
        }  # fmt: skip
        before = f"import os\nos.environ |= {variables!r}\n{before}\n"
        if self.namespaces[node]:
            before += f"from tests.training.nodes import enter\nenter({self.namespaces[node]!r})\n"
        return Forked(["train", *flags(out, nodes=2, devices=on_each, **changes)], before)


def ended(processes: list[Forked]) -> list[str]:
    """What each has written on standard error, once all have ended."""
    begun = time.monotonic()
    return [process.communicate(timeout=_SECONDS - (time.monotonic() - begun))[1] for process in processes]


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("", 0))
        return taken.getsockname()[1]


def why_no_namespaces() -> str | None:
    """Why this machine cannot have some; None if it can."""
    if shutil.which("ip") is None or not hasattr(os, "geteuid"):
        return "there is no ip command"
    if os.geteuid() != 0:
        return "only root makes network namespaces"
    name = f"candi{os.getpid()}"
    for command in (["ip", "netns", "add", name], ["ip", "-n", name, "link", "add", "one", "type", "veth"]):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
            return f"{' '.join(command)}: {done.stderr.strip()}"
    subprocess.run(["ip", "netns", "del", name], check=True)
    return None


@contextmanager
def namespaces() -> Iterator[tuple[str, str]]:
    """Two of them, which a cable joins: 10.99.0.1 and 10.99.0.2, and nothing else."""
    first, second = (name.format(os.getpid()) for name in _CABLES)
    try:
        for line in (
            f"netns add {first}", f"netns add {second}",
            f"-n {first} link add cable type veth peer name cable netns {second}",
            f"-n {first} addr add 10.99.0.1/24 dev cable", f"-n {second} addr add 10.99.0.2/24 dev cable",
            *(f"-n {one} link set {device} up" for one in (first, second) for device in ("lo", "cable")),
        ):  # fmt: skip
            subprocess.run(["ip", *line.split()], check=True)
        yield first, second
    finally:
        for name in (first, second):
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
