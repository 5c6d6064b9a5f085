"""Which of several processes has ended: the first one holds a connection to every other.

The kernel closes the connections of a process that dies, whatever killed it, and finds within half a minute that a
machine is gone. So nothing has to be sent while all is well, and a process that is only busy is never taken for dead.
"""

import json
import secrets
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TextIO

_BYE = "bye\n"
_LINE = 1 << 16  # characters
_KEEPALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 4}  # seconds, seconds, probes


@dataclass(frozen=True)
class Ended:
    """A process that has ended, and what it said of the reason, if it could say something."""

    rank: int
    host: str
    reason: str | None = None


class Watch:
    """One process's connections. `told` is called once, in a thread, with the first other process that has ended."""

    def __init__(self, rank: int, told: Callable[[Ended], None]) -> None:
        self.rank, self.host, self._told = rank, socket.gethostname(), told
        self._lock, self._done = threading.Lock(), False
        self._links: list[socket.socket] = []

    def open(self) -> str:
        """The first process: let the others come. What they need to know to find it."""
        try:
            listener = socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True, backlog=1024)
        except (OSError, ValueError):  # a machine without IPv6
            listener = socket.create_server(("", 0), backlog=1024)
        self._links.append(listener)
        token = secrets.token_hex(16)
        _in_background(self._accept, listener, token)
        return json.dumps([listener.getsockname()[1], token, self.host])

    def join(self, address: str, known: str) -> None:
        """Another process: connect to the first one, by what it has made known."""
        port, token, host = json.loads(known)
        link = _kept_alive(socket.create_connection((address, port), timeout=60))
        link.settimeout(None)
        self._links.append(link)
        link.sendall((json.dumps([token, self.rank, self.host]) + "\n").encode())
        _in_background(self._listen, link.makefile("r"), Ended(0, host))

    def leave(self, reason: str | None = None, fine: bool = False) -> None:
        """Tell the others that this process ends, by a mistake of the user or because all is done, and watch no more.

        Without either the others see the connection close, as of a process that was killed.
        """
        if not self._finish():
            return
        if fine or reason is not None:
            self._spread(_BYE if fine else json.dumps(asdict(Ended(self.rank, self.host, reason))) + "\n")
        for link in self._links:
            with suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)

    def _finish(self) -> bool:
        """Whether this is the first time."""
        with self._lock:
            first, self._done = not self._done, True
        return first

    def _accept(self, listener: socket.socket, token: str) -> None:
        with suppress(OSError):  # closed by us, as the others are
            while True:
                link = _kept_alive(listener.accept()[0])
                _in_background(self._greet, link, token)

    def _greet(self, link: socket.socket, token: str) -> None:
        lines = link.makefile("r")
        with suppress(OSError, ValueError, TypeError):  # somebody else's connection
            given, rank, host = json.loads(lines.readline(_LINE))
            if secrets.compare_digest(str(given), token):
                self._links.append(link)
                self._listen(lines, Ended(int(rank), str(host)))
                return
        link.close()

    def _listen(self, lines: TextIO, other: Ended) -> None:
        """Until the other side says something or is no more."""
        line = ""
        with suppress(OSError):
            line = lines.readline(_LINE)
        if line == _BYE:
            return
        ended = Ended(**json.loads(line)) if line.endswith("\n") else other
        if self._finish():
            self._spread(json.dumps(asdict(ended)) + "\n")
            self._told(ended)

    def _spread(self, line: str) -> None:
        for link in self._links:
            with suppress(OSError):  # it has ended too
                link.sendall(line.encode())


def _in_background(run: Callable[..., None], *arguments: object) -> None:
    threading.Thread(target=run, args=arguments, daemon=True, name="watch").start()


def _kept_alive(link: socket.socket) -> socket.socket:
    link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):  # not everywhere
            link.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return link
