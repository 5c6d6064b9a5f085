"""A hub on loopback: what candi uploads and fetches of the real one's interface, with the files in memory."""

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(ThreadingHTTPServer):
    """`files` are those of each repository by name; `refuse` answers every wish to write with that status."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, dict[str, bytes]] = {}
        self.refuse: int | None = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@contextmanager
def running() -> Iterator[Hub]:
    hub = Hub()
    thread = threading.Thread(target=hub.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.shutdown()
        hub.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: Hub
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.server.refuse is not None:
            self._json({"error": "You may not write here."}, self.server.refuse)
        elif self.path == "/api/repos/create":
            wish = json.loads(body)
            name = f"{wish['organization']}/{wish['name']}" if wish.get("organization") else wish["name"]
            self.server.files.setdefault(name, {})
            self._json({"url": f"{self.server.address}/{name}", "name": name})
        elif self.path == "/api/validate-yaml":
            self._json({"errors": [], "warnings": []})
        elif found := re.fullmatch(r"/api/models/([^/]+/[^/]+)/preupload/main", self.path):
            wanted = json.loads(body)["files"]
            self._json({"files": [{"path": one["path"], "uploadMode": "regular", "shouldIgnore": False,
                                   "oid": None} for one in wanted]})  # fmt: skip
        elif found := re.fullmatch(r"/api/models/([^/]+/[^/]+)/commit/main", self.path):
            for line in body.splitlines():
                change = json.loads(line)
                if change["key"] == "file":
                    content = base64.b64decode(change["value"]["content"])
                    self.server.files[found[1]][change["value"]["path"]] = content
            self._json({"commitUrl": f"{self.server.address}/{found[1]}/commit/{_COMMIT}", "commitOid": _COMMIT})
        else:
            self._json({"error": f"no {self.path}"}, 404)

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if found := re.fullmatch(r"/api/models/([^/]+/[^/]+)(/revision/[^/]+)?", path):
            files = self.server.files.get(found[1])
            if files is None:
                self._json({"error": "Repository not found"}, 404, {"X-Error-Code": "RepoNotFound"})
                return
            siblings = [{"rfilename": name} for name in files]
            self._json({"id": found[1], "sha": _COMMIT, "siblings": siblings, "private": False})
        elif found := re.fullmatch(r"/api/models/([^/]+/[^/]+)/tree/[^/]+", path):
            files = self.server.files[found[1]]
            self._json([{"type": "file", "path": name, "size": len(content), "oid": _tag(content)}
                        for name, content in files.items()])  # fmt: skip
        elif found := re.fullmatch(r"/([^/]+/[^/]+)/resolve/[^/]+/(.+)", path):
            content = self.server.files.get(found[1], {}).get(found[2])
            if content is None:
                self._json({"error": "Entry not found"}, 404, {"X-Error-Code": "EntryNotFound"})
                return
            self._send(content, 200, {"ETag": f'"{_tag(content)}"', "X-Repo-Commit": _COMMIT})
        else:
            self._json({"error": f"no {self.path}"}, 404)

    do_HEAD = do_GET

    def _json(self, value: object, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self._send(json.dumps(value).encode(), status, {"Content-Type": "application/json", **(headers or {})})

    def _send(self, content: bytes, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *arguments: object) -> None:
        pass


def _tag(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
