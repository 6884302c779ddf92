"""Requests by a seed: the mirror's routes with odd parts, queries, headers and bodies, some of them right."""

from __future__ import annotations

import random
import re
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass, field

from shiftdata.serve.app import ROUTES

TOKEN = "the-token-of-the-tests"
HOST = b"127.0.0.1:8000"
PARAMETER = re.compile(r"{(\w+)(?::\w+)?}")

#: Parts of paths, as they are in a URL; of each kind, the first ones exist.
PARTS = {
    "owner": ["shift", "lab", "lab%2Fopen", "..", "%2e%2e", ".git", "x" * 97, "%00", "%ff", "datasets"],
    "name": ["folder", "tiny", "none", "..", "%2e%2e", "folder.git", "a%0d%0ab", ""],
    "revision": [
        *("main", "main", "refs%2Fheads%2Fmain", "refs/pr/1", "a" + "+" * 99, "a%2B" * 40, "HEAD", "0" * 40),
        *("..", "%2e%2e%2fmain", "main%00", "%ff", "x" * 300, "*", "%F0%9F%98%80", "a%2fb", ""),
    ],
    "path": [
        *("a.txt", "sub/b.txt", "manifest.json", "sub", "README.md", "croissant.json", "none", "../a.txt"),
        *("%2e%2e/%2e%2e/secret.txt", "..%2f..%2fsecret.txt", "/etc/passwd", "//etc/passwd", "sub//b.txt"),
        *(".env", "sub/", "a.txt%00", "%ff", "a" * 1100, "/".join("a" * 300), "a.txt/../a.txt", "link.txt"),
        *("out/secret.txt", "%5c..%5csecret.txt", "<script>", "%0d%0aX-Injected:%201", "*", "%E2%80%AE"),
    ],
    "base": ["mini", "extended", "..", "%00", "x" * 300],
    "row": ["0", "1", "-1", "9" * 30],
    "label": ["0", "1", "9" * 30],
    "step": ["0", "1", "9" * 30],
}
QUERIES = [
    *("recursive=1", "expand=1", "recursive=true&expand=true", "cursor=a.txt", "cursor=%F0%9F%98%80%00"),
    *("limit=1", "limit=99999999999999999999", "search=op", "search=%ff", "author=shift", "blobs=1"),
    *("a" * 3000, "&&&=;=%", "recursive=%00", "label=0&nuisance=1&count=5", "label=x", "from=-1"),
    *("key=x", "task=group-fairness", "task=" + "a" * 2000, "base=mini&full=1", "side=99999999", "v=0"),
]
RIGHT = [f"Bearer {TOKEN}", f"bearer {TOKEN}", f"Basic {b64encode(f'me:{TOKEN}'.encode()).decode()}"]
TOKENS = [
    *([None] * 5),
    *(RIGHT * 3),
    *(f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}x", "Bearer", "Bearer x", "Basic eDp5"),
    *("\xff\xfe", "Bearer " + "a" * 5000),
]
HEADERS: dict[bytes, list[bytes]] = {
    b"range": [
        *(b"bytes=0-0", b"bytes=-1", b"bytes=5-2", b"bytes=0-", b"bytes=" + b"9" * 5000 + b"-"),
        *(b"bytes=0-1,3-4", b"rows=1", b"-"),
    ],
    b"if-none-match": [b"*", b'"x"', b'W/"x", ' * 500, b"\xff"],
    b"if-range": [b'"x"', b"*", b"Sun, 22 Nov 2026 00:00:00 GMT"],
    b"content-type": [b"application/json", b"application/x-www-form-urlencoded", b"\xff"],
    b"user-agent": [b"\x1b[2J", b"a" * 8000],
}
HOSTS = [*[HOST] * 6, b"localhost", b"evil.example", b"", b"<script>", b"[::1]:1", b"127.0.0.1:0"]
BODIES = [
    *(b"", b"null", b"[]", b"\xff\xfe", b"[" * 100_000, b'{"a":' * 50_000, b"\0" * 1000, b"\n" * 50_000),
    *(b"paths=a.txt&expand=1", b"paths=%ff", b"paths=" + b"a" * 2000, b"paths=x&" * 6000),
]


@dataclass
class Asked:
    """A request; its body comes in pieces, the last perhaps never."""

    method: str
    target: str
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    pieces: list[bytes] = field(default_factory=list)
    whole: bool = True

    @property
    def has_token(self) -> bool:
        return any(value.decode("latin-1") in RIGHT for _, value in self.headers)

    def raw(self) -> bytes:
        """The bytes that go over a socket."""
        body = b"".join(self.pieces)
        lines = [f"{self.method} {self.target} HTTP/1.1".encode()]
        lines += [name + b": " + value for name, value in self.headers]
        lines += [b"content-length: %d" % len(body)] if self.pieces else []
        return b"\r\n".join([*lines, b"", body])


def asked(seed: int, rng: random.Random | None = None) -> Asked:
    rng = rng or random.Random(seed)
    route = rng.choice(ROUTES)
    method = rng.choice(sorted(route.methods or {"GET"}))

    def value(parameter: re.Match[str]) -> str:
        values = PARTS.get(parameter[1], ["x"])
        # Most parts are right, or no request would come far.
        return rng.choice(values[:2] if rng.random() < 0.7 else values)

    target = PARAMETER.sub(value, route.path)
    if rng.random() < 0.3:
        target += "?" + rng.choice(QUERIES)
    if rng.random() < 0.05:
        method = rng.choice(["HEAD", "OPTIONS", "PATCH", "TRACE", "PUT", "get", "X" * 30])
    request = Asked(method, target, list(_headers(rng)))
    if method not in ("GET", "HEAD") or rng.random() < 0.05:
        request.pieces = list(_cut(_body(rng), rng))
        request.whole = rng.random() < 0.95
    return request


def _headers(rng: random.Random) -> Iterator[tuple[bytes, bytes]]:
    yield b"host", rng.choice(HOSTS)
    if token := rng.choice(TOKENS):
        yield b"authorization", token.encode("latin-1")
    for name, values in HEADERS.items():
        if rng.random() < 0.15:
            yield name, rng.choice(values)
    if rng.random() < 0.05:
        odd = [(b"host", b"evil.example"), (b"authorization", b"Basic \xff"), (b"origin", b"null")]
        yield rng.choice(odd)


def _cut(body: bytes, rng: random.Random) -> Iterator[bytes]:
    while len(body) > 1 and rng.random() < 0.5:
        at = rng.randrange(len(body))
        yield body[:at]
        body = body[at:]
    yield body


def _body(rng: random.Random) -> bytes:
    if rng.random() < 0.4:
        return rng.choice(BODIES)
    fields = [f"paths={path}" for path in rng.choices(PARTS["path"], k=3)] + ["expand=1"] * rng.randrange(2)
    return "&".join(rng.sample(fields, len(fields))).encode()
