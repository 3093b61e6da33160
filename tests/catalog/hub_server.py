"""A small Hub on localhost: the routes that clients use, and the ways in which they fail."""

import json
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"
OTHER = "89abcdef0123456789abcdef0123456789abcdef"


def safetensors_file(tensors: Mapping[str, tuple[str, list[int], int]], body: bool = True) -> bytes:
    """A safetensors file of zeros: name → (dtype, shape, bytes)."""
    header, at = {}, 0
    for name, (dtype, shape, size) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + (bytes(at) if body else b"")


@dataclass
class Seen:
    method: str
    path: str
    authorization: str | None
    range: str | None


@dataclass
class Hub:
    """Files by (repository, revision, name); `fails` turns a file into a failure."""

    files: dict[tuple[str, str, str], bytes] = field(default_factory=dict)
    fails: dict[str, Callable[["Handler"], None]] = field(default_factory=dict)  # by repository
    seen: list[Seen] = field(default_factory=list)
    elsewhere: "Hub | None" = None  # another host, that redirects point to
    honours_ranges: bool = True
    explains: bool = True  # why it refuses
    url: str = ""

    def add(self, repo: str, name: str, data: bytes | dict[str, object], revision: str = "main") -> None:
        self.files[repo, revision, name] = data if isinstance(data, bytes) else json.dumps(data).encode()


class Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.answer(body=False)

    def do_GET(self) -> None:
        self.answer(body=True)

    def answer(self, body: bool) -> None:
        hub = self.hub
        hub.seen.append(Seen(self.command, self.path, self.headers["Authorization"], self.headers["Range"]))
        parts = [unquote(part) for part in urlsplit(self.path).path.strip("/").split("/")]
        if parts[:2] == ["api", "models"]:
            repo = "/".join(parts[2:4])
            names = [{"rfilename": name} for (r, _, name) in hub.files if r == repo]
            if not names:
                return self.refuse(404, "RepoNotFound")
            return self.send(json.dumps({"id": repo, "sha": COMMIT, "siblings": names}).encode(), body)
        if len(parts) < 5 or parts[2] != "resolve":
            return self.refuse(404)
        repo, revision, name = "/".join(parts[:2]), parts[3], "/".join(parts[4:])
        if repo in hub.fails:
            return hub.fails[repo](self)
        if not any(r == repo for r, _, _ in hub.files):
            return self.refuse(404, "RepoNotFound")
        commits = {v: COMMIT if v == "main" else OTHER for r, v, _ in hub.files if r == repo}
        revision = next((v for v, commit in commits.items() if commit == revision), revision)
        if not any((r, v) == (repo, revision) for r, v, _ in hub.files):
            return self.refuse(404, "RevisionNotFound")
        if (repo, revision, name) not in hub.files:
            return self.refuse(404, "EntryNotFound")
        return self.send(hub.files[repo, revision, name], body, COMMIT if revision == "main" else OTHER)

    def refuse(self, status: int, code: str | None = None, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        if code and self.hub.explains:
            self.send_header("X-Error-Code", code)
        self.send_header("X-Repo-Commit", COMMIT)
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def send(self, data: bytes, body: bool, commit: str = COMMIT, cut: int | None = None) -> None:
        asked = self.headers["Range"]
        status, part = 200, data
        if asked and self.hub.honours_ranges:
            start, end = (int(n) for n in asked.removeprefix("bytes=").split("-"))
            status, part = 206, data[start : end + 1]
        self.send_response(status)
        self.send_header("Content-Length", str(len(part)))
        self.send_header("ETag", f'"{hash(data) & (2**64 - 1):016x}"')
        self.send_header("X-Repo-Commit", commit)
        self.end_headers()
        if body:
            with suppress(OSError):  # the client has read enough
                self.wfile.write(part if cut is None else part[:cut])
        if cut is not None:
            self.close_connection = True


@contextmanager
def serve(hub: Hub) -> Iterator[Hub]:
    handler = type("HandlerOfHub", (Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()


def slow(handler: Handler) -> None:
    time.sleep(3)


def trickle(handler: Handler) -> None:
    """Answers the question of a file's size, then sends it byte by byte, never so late that a read times out."""
    data = b'{"model_type": "llama"}' * 200
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(data)))
    handler.send_header("ETag", '"trickle"')
    handler.send_header("X-Repo-Commit", COMMIT)
    handler.end_headers()
    if handler.command == "GET":
        with suppress(OSError):
            for byte in data:
                handler.wfile.write(bytes([byte]))
                handler.wfile.flush()
                time.sleep(0.05)
