"""Style pictures for tests, and a server of addresses that answers as servers do."""

from __future__ import annotations

import io
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_image

from tests.web import answering


def data_of(picture: Image.Image, kind: str = "PNG", **options) -> bytes:
    stream = io.BytesIO()
    picture.save(stream, kind, **options)
    return stream.getvalue()


@cache
def photographs() -> tuple[Image.Image, ...]:
    """24 parts of the two photographs of scikit-learn."""
    photos = [Image.fromarray(load_sample_image(name)) for name in ("china.jpg", "flower.jpg")]
    return tuple(
        photo.crop((x, y, x + 150, y + 130))
        for photo in photos
        for y in (0, 140, 280)
        for x in (0, 160, 320, 480)
    )


@cache
def texture(style: str, number: int) -> Image.Image:
    """A picture of a style: waves of its own direction and colours."""
    draw = np.random.default_rng([sum(map(ord, style)), number])
    y, x = np.mgrid[:90, :100] / 100
    turn = sum(map(ord, style)) + draw.normal() * 0.3
    waves = sum(
        np.sin(one * (x * np.cos(turn) + y * np.sin(turn)) + draw.uniform(0, 7))
        for one in draw.uniform(4, 30, 4)
    )
    cast = 128 + draw.uniform(-40, 40, 3)
    colours = draw.uniform(20, 120, 3) * waves[..., None] / 2 + cast + draw.normal(0, 12, (90, 100, 3))
    return Image.fromarray(colours.clip(0, 255).astype(np.uint8))


@dataclass
class Server:
    """`answers` by path: a status, a type and a body. `broken` paths answer 503 so many times first."""

    answers: dict[str, tuple[int, str, bytes]] = field(default_factory=dict)
    broken: Counter[str] = field(default_factory=Counter)
    asked: Counter[str] = field(default_factory=Counter)
    hold: threading.Event | None = None
    url: str = ""


class Handler(BaseHTTPRequestHandler):
    server_of: Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        one = self.server_of
        one.asked[self.path] += 1
        if one.hold and self.path.endswith("held.png"):
            one.hold.wait(20)
        status, kind, body = one.answers.get(self.path, (404, "text/html", b"<html>nothing here</html>"))
        if one.broken[self.path]:
            one.broken[self.path] -= 1
            status, body = 503, b""
        self.send_response(status)
        if status in (301, 302):
            self.send_header("Location", body.decode())
            body = b""
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Stay quiet."""


@contextmanager
def serving() -> Iterator[Server]:
    one = Server()
    with answering(type("Of", (Handler,), {"server_of": one})) as one.url:
        yield one


def tree(folder: Path) -> dict[str, bytes]:
    """Every file of a folder that is not hidden."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.relative_to(folder).as_posix().startswith(".")
    }
