"""A plain HTTP server of a folder that knows ranges, and breaks as servers do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from tests.web import answering


@dataclass
class Server:
    """`cut` ends the next answers after so many bytes; `asked` are the ranges that were asked for."""

    folder: Path
    url: str = ""
    cut: list[int] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)


class Handler(BaseHTTPRequestHandler):
    server_of: Server
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def log_message(self, *_: object) -> None:
        """Stay quiet."""

    def _answer(self, *, with_body: bool) -> None:
        one = self.server_of
        file = one.folder / self.path.lstrip("/")
        if not file.is_file():
            self.send_error(404)
            return
        data, asked = file.read_bytes(), self.headers.get("Range", "")
        if asked:
            first, last = (int(number) for number in asked.removeprefix("bytes=").split("-"))
            part = data[first : last + 1]
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {first}-{first + len(part) - 1}/{len(data)}")
        else:
            part = data
            self.send_response(200)
        self.send_header("Content-Length", str(len(part)))
        self.end_headers()
        if with_body:
            one.asked.append(asked)
            if one.cut:
                part = part[: one.cut.pop(0)]
                self.close_connection = True
            self.wfile.write(part)


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    """Serve a folder on this machine."""
    one = Server(folder)
    with answering(type("Of", (Handler,), {"server_of": one})) as one.url:
        yield one
