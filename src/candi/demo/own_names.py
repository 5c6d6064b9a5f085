"""The page answers to the names of this machine alone.

A page from elsewhere may give its own name the address of this machine (DNS rebinding): it would read what is here.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias
from urllib.parse import urlsplit

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Message, Receive, Send], Awaitable[None]]

NAMES = ("localhost", "127.0.0.1", "::1")
_NOT_HERE = 421  # misdirected request


class OwnNames:
    """Around an app: whoever asks for another host is told so, and nothing else."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or _asks_for_us(scope):
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            kind = [(b"content-type", b"text/plain; charset=utf-8")]
            await send({"type": "http.response.start", "status": _NOT_HERE, "headers": kind})
            await send({"type": "http.response.body", "body": b"This page answers to localhost and 127.0.0.1 alone.\n"})


def _asks_for_us(scope: Message) -> bool:
    hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
    return len(hosts) == 1 and _name(hosts[0]) in NAMES


def _name(host: str) -> str | None:
    """Without the port."""
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None
