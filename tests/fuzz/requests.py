"""Requests by a seed: the server's own routes with odd parts, queries, headers, bodies; many are right."""

from __future__ import annotations

import ast
import asyncio
import random
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

from starlette.routing import Route

import shiftdata.serve
from shiftdata.serve.app import ROUTES

TOKEN = "the-token-of-the-tests"
HOST = b"127.0.0.1:8000"
PARAMETER = re.compile(r"{(\w+)(?::\w+)?}")

#: Parts of paths, as they are in a URL, and values of a query; of each kind, the first two exist.
PARTS = {
    "owner": [
        "shift",
        "shift",
        "lab",
        "lab%2Fopen",
        "..",
        "%2e%2e",
        ".git",
        "x" * 97,
        "%00",
        "%ff",
        "datasets",
    ],
    "name": ["folder", "tiny", "tiny_continuous", "none", "..", "%2e%2e", "folder.git", "a%0d%0ab", ""],
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
    "base": ["mini", "content", "none", "..", "%00", "x" * 300],
    "row": ["0", "1", "-1", "9" * 30],
    "label": ["0", "1", "9" * 30],
    "step": ["0", "1", "9" * 30],
    "cursor": ["a.txt", "", "%F0%9F%98%80%00"],
    "limit": ["1", "1000", "9" * 30, "-1", "x"],
    "recursive": ["1", "true", "%00"],
    "expand": ["1", "false", "%ff"],
    "search": ["op", "ti", "%ff", "x" * 3000],
    "author": ["shift", "lab", ""],
    "blobs": ["1", "true"],
    "nuisance": ["1", "-1", "9" * 30, "x"],
    "split": ["test", "train", "none", "%00"],
    "severity": ["1.0", "0.5", "nan", "inf", "1e999", "-0", "x"],
    "license": ["CC0-1.0", "CC-BY-4.0", "none", "%00", "x" * 300],
    "use": ["commercial", "derivatives", "none", "%ff"],
    "q": ["a", "TRAIN", "%00", "%ff", ".*", "%F0%9F%98%80", "x" * 3000],
    "sort": ["key", "-length", "-key", "origin", "severity", "", "-", "--key", "none", "%00", "x" * 3000],
    "from": ["0", "5", "-1", "9" * 30],
    "count": ["5", "1000", "-1", "9" * 30, ""],
    "full": ["1", "0"],
    "key": ["{key}", "x", "%ff", "%00", "x" * 3000],
    "task": [
        "severity%3C%3D9",
        "group-fairness%20k%3D2",
        "a" * 2000,
        "group-fairness%20k%3D" + "9" * 400,
        "%00",
    ],
    "task_id": ["gf_k2_mu10", "", "x" * 300],
    "side": ["64", "16", "9" * 30, "-5", "x"],
    "v": ["", "0", "x" * 300],
}
#: Parts of a path that are no values of a query too, and queries that have no names.
IN_PATHS = ("owner", "name", "revision", "path", "row", "step")
ODD_QUERIES = ["a" * 3000, "&&&=;=%", "=", "label=0&label=x", "%00=%00"]


KIND = "QueryParams"
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


def query_names() -> set[str]:
    """Every name that the server's code reads from a query, through functions of its own or not."""
    found, readers = set[str](), dict[str, int]()
    trees = [ast.parse(path.read_text()) for path in Path(shiftdata.serve.__path__[0]).rglob("*.py")]
    functions = [node for tree in trees for node in ast.walk(tree) if isinstance(node, Function)]
    for _ in range(4):  # functions that call each other
        for function in functions:
            arguments = [each.arg for each in function.args.args]
            for name in _names_read(function, readers):
                if isinstance(name, ast.Constant):
                    found.add(str(name.value))
                elif ast.unparse(name) in arguments:
                    readers[function.name] = arguments.index(ast.unparse(name))
                else:
                    raise AssertionError(f"{function.name} reads the query by {ast.unparse(name)}")
    return found


def _names_read(function: Function, readers: Mapping[str, int]) -> Iterator[ast.expr]:
    known = {
        each.arg for each in function.args.args if each.annotation and ast.unparse(each.annotation) == KIND
    }

    def is_query(node: ast.expr) -> bool:
        text = ast.unparse(node)
        return text.endswith(".query_params") or text.startswith(f"{KIND}(") or text in known

    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                known |= {ast.unparse(n) for n, value in zip(names, values, strict=True) if is_query(value)}
            case ast.Assign(targets=[name], value=value) if is_query(value):
                known.add(ast.unparse(name))
            case ast.Call(func=ast.Attribute(value=query), args=[name, *_]) if is_query(query):
                yield name
            case ast.Subscript(value=query, slice=name) if is_query(query):
                yield name
            case ast.Call(func=ast.Name(called), args=[ast.Name("request" | "ask"), *_] as given):
                if called in readers:
                    yield given[readers[called]]


def targets(routes: Iterable[Route], name: str, keys: Sequence[str]) -> Iterator[str]:
    """Addresses of all about a dataset: each route as pages ask for it, with parameters and without."""
    for route in routes:
        for of in range(2):
            path = PARAMETER.sub(
                lambda part, of=of: name if part[1] == "name" else PARTS[part[1]][of], route.path
            )
            yield path
            narrow = {word: PARTS[word][of] for word in ("label", "nuisance", "severity", "split")}
            narrow |= {word: PARTS[word][of] for word in ("license", "use", "q", "sort")}
            wide = {
                "full": "1",
                "key": quote(keys[of]),
                "side": "64",
                "task": PARTS["task"][of],
                "recursive": "1",
            }
            for query in (wide, wide | narrow):
                yield path + "?" + "&".join(f"{word}={value}" for word, value in query.items())


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
    """A request; its body comes in pieces."""

    method: str
    target: str
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    pieces: list[bytes] = field(default_factory=list)

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
        values = PARTS[parameter[1]]
        # Most parts are right, or no request would come far.
        return rng.choice(values[:2] if rng.random() < 0.7 else values)

    target = PARAMETER.sub(value, route.path)
    if rng.random() < 0.4:
        names = rng.choices([name for name in PARTS if name not in IN_PATHS], k=rng.randint(1, 5))
        fields = [f"{name}={rng.choice(PARTS[name][: rng.choice([2, 99])])}" for name in names]
        target += "?" + ("&".join(fields) if rng.random() < 0.9 else rng.choice(ODD_QUERIES))
    if rng.random() < 0.05:
        method = rng.choice(["HEAD", "OPTIONS", "PATCH", "TRACE", "PUT", "get", "X" * 30])
    request = Asked(method, target, list(_headers(rng)))
    if method not in ("GET", "HEAD") or rng.random() < 0.05:
        request.pieces = list(_cut(_body(rng), rng))
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


class Reply:
    """What the application sent."""

    def __init__(self) -> None:
        self.status, self.headers, self.body, self.ended = 0, list[tuple[bytes, bytes]](), b"", False

    def take(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            assert not self.status, "an answer began twice"
            self.status, self.headers = message["status"], list(message["headers"])
        elif message["type"] == "http.response.body":
            assert self.status, "a body without a status"
            self.body += message.get("body", b"")
            self.ended = not message.get("more_body", False)

    @property
    def everything(self) -> bytes:
        return self.body + b"\n".join(name + b": " + value for name, value in self.headers)


async def answered(app: Any, request: Asked) -> Reply:
    """One request, as the server hands it over."""
    raw_path, _, query = request.target.encode().partition(b"?")
    reply, left = Reply(), list(request.pieces) or [b""]

    async def receive() -> Any:
        if left:
            piece = left.pop(0)
            return {"type": "http.request", "body": piece, "more_body": bool(left)}
        return await asyncio.Event().wait()  # the client waits; a body that is cut off never comes here

    async def send(message: Any) -> None:
        reply.take(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": raw_path.decode(),
        "raw_path": raw_path,
        "query_string": query,
        "root_path": "",
        "headers": request.headers,
        "client": ("127.0.0.1", 50000),
        "server": ("127.0.0.1", 8000),
        "state": {},
    }
    await app(scope, receive, send)
    return reply
