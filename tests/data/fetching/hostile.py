"""A server that nobody should trust: a Hub and a plain server of one dataset; it notes what it was sent."""

from __future__ import annotations

import functools
import gzip
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tests.web import answering

COMMIT = "c" * 40
SECRETS = ("authorization", "proxy-authorization", "cookie")


@dataclass
class Hostile:
    """`answers` says how a path that ends so is answered; all else is served as it is in `root`."""

    root: Path
    answers: dict[str, str] = field(default_factory=dict)
    target: str = ""  # of redirects
    asked: list[str] = field(default_factory=list)
    secrets: list[str] = field(default_factory=list)
    sent: int = 0
    port: int = 0
    host: str = "127.0.0.1"
    stopped: bool = False
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    @property
    def http(self) -> str:
        return f"{self.url}/tiny"

    @property
    def hub(self) -> str:
        return f"hf+{self.url}/datasets/shift/tiny"


@functools.cache
def _bomb() -> bytes:
    """Few bytes that unpack to many."""
    return gzip.compress(bytes(200 << 20))


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_of: Hostile

    def handle(self) -> None:
        with suppress(OSError):  # a client that has had enough
            super().handle()

    def do_HEAD(self) -> None:
        self.answer()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.answer()

    def do_GET(self) -> None:
        self.answer()

    def answer(self) -> None:
        one, path = self.server_of, unquote(urlsplit(self.path).path)
        one.asked.append(f"{self.command} {self.path}")
        one.secrets += [f"{self.path}: {self.headers[name]}" for name in SECRETS if name in self.headers]
        way = next((way for end, way in one.answers.items() if path.endswith(end)), "well")
        if path.startswith("/api/datasets/") and way == "well":
            return self.whole(self.tree() if "/tree/" in path else json.dumps({"sha": COMMIT}).encode())
        for start in ("/datasets/shift/tiny/resolve/main", f"/datasets/shift/tiny/resolve/{COMMIT}", "/tiny"):
            if path.startswith(f"{start}/"):
                path = path.removeprefix(f"{start}/")
                break
        file = one.root / path.strip("/")
        if way == "well" and not file.is_file():
            return self.send_error(404)
        data = file.read_bytes() if file.is_file() else b""
        return getattr(self, way)(data)

    def tree(self) -> bytes:
        root = self.server_of.root
        files = [path for path in root.rglob("*") if path.is_file()]
        return json.dumps(
            [
                {"type": "file", "path": path.relative_to(root).as_posix(), "size": path.stat().st_size}
                for path in files
            ]
        ).encode()

    def begin(self, status: int, length: int | None, **headers: str) -> None:
        self.send_response(status)
        if length is not None:
            self.send_header("Content-Length", str(length))
        known = {"X-Repo-Commit": COMMIT, "ETag": '"e"', **self.server_of.headers}
        for name, value in {
            **known,
            **{name.replace("_", "-"): one for name, one in headers.items()},
        }.items():
            self.send_header(name, value)
        self.end_headers()

    def push(self, data: bytes) -> None:
        self.server_of.sent += len(data)
        if self.command != "HEAD":
            self.wfile.write(data)

    def whole(self, data: bytes) -> None:
        self.begin(200, len(data))
        self.push(data)

    def well(self, data: bytes) -> None:
        asked = self.headers.get("Range")
        if not asked or "," in asked:
            return self.whole(data)
        first, last = asked.removeprefix("bytes=").split("-")
        part = data[int(first) : int(last) + 1]
        self.begin(206, len(part), Content_Range=f"bytes {first}-{int(first) + len(part) - 1}/{len(data)}")
        return self.push(part)

    def endless(self, data: bytes) -> None:
        """A body without an end, whatever was asked for."""
        self.begin(206 if self.headers.get("Range") else 200, None, Connection="close", **self.range())
        while not self.server_of.stopped and self.command != "HEAD":
            self.push(bytes(1 << 20))

    def chunks(self, data: bytes) -> None:
        """The same, in chunks of a byte, with trailers that do not end."""
        self.begin(
            206 if self.headers.get("Range") else 200, None, Transfer_Encoding="chunked", **self.range()
        )
        for _ in range(1000):
            self.push(b"1\r\nx\r\n")
        self.push(b"0\r\n")
        while not self.server_of.stopped and self.command != "HEAD":
            self.push((b"X-More: " + b"y" * 60_000 + b"\r\n") * 10)

    def heads(self, data: bytes) -> None:
        """Answers before the answer, without an end."""
        while not self.server_of.stopped:
            self.server_of.sent += 25_000
            self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000)

    def huge(self, data: bytes) -> None:
        self.begin(200, 2 << 30)
        while not self.server_of.stopped and self.command != "HEAD":
            self.push(bytes(1 << 20))

    def pages(self, data: bytes) -> None:
        """A list whose pages have no end, and nothing in them."""
        self.begin(200, 2, Link=f'<{self.server_of.url}/?cursor={time.monotonic_ns()}>; rel="next"')
        self.push(b"[]")

    def more(self, data: bytes) -> None:
        """More bytes than the file has."""
        self.whole(data + bytes(10 << 20))

    def packed(self, data: bytes) -> None:
        bomb = _bomb()
        self.begin(200, len(bomb), Content_Encoding="gzip")
        self.push(bomb)

    def drip(self, data: bytes) -> None:
        self.begin(200, 10 << 20)
        while not self.server_of.stopped and self.command != "HEAD":
            self.push(b" ")
            self.wfile.flush()
            time.sleep(0.05)

    def paced(self, data: bytes) -> None:
        """A whole file, for longer than a window, as fast as it must be."""
        self.begin(200, 500_000)
        for _ in range(50):
            self.push(bytes(10_000))
            time.sleep(0.05)

    def drip_head(self, data: bytes) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
        while not self.server_of.stopped:
            self.wfile.write(b"a")
            self.wfile.flush()
            time.sleep(0.05)

    def redirect(self, data: bytes) -> None:
        self.begin(302, 0, Location=self.server_of.target + self.path)

    def loop(self, data: bytes) -> None:
        self.begin(302, 0, Location=f"{self.path.partition('?')[0]}?{time.monotonic_ns()}")

    def range(self) -> dict[str, str]:
        first, _, last = self.headers.get("Range", "").removeprefix("bytes=").partition("-")
        return {"Content_Range": f"bytes {first}-{last}/{1 << 40}"} if first else {}

    def log_message(self, *_: object) -> None:
        """Stay quiet."""


@contextmanager
def hostile(root: Path, host: str = "127.0.0.1", **answers: str) -> Iterator[Hostile]:
    """Serve a folder; `answers` are by the ends of paths."""
    one = Hostile(root, dict(answers), host=host)
    with answering(type("Of", (Handler,), {"server_of": one}), host) as url:
        one.port = int(url.rpartition(":")[2])
        try:
            yield one
        finally:
            one.stopped = True
