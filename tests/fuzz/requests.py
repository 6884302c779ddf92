"""Requests by a seed: the mirror's routes with odd parts, queries, headers and bodies, some of them right."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.fuzz.mutations import change, json_text, mutated, odd_text, walk

TOKEN = "the-token-of-the-tests"
#: In the bytes, the file names and the titles of what only the token may see.
MARKER = b"private-5e1f"
HOST = b"127.0.0.1:8000"

OWNERS = ["lab", "shift", "lab", "lab%2Fopen", "..", "%2e%2e", ".mirror", "x" * 97, "%00", "%ff", "datasets"]
NAMES = [
    "open",
    "quiet",
    "gated",
    "folder",
    "open",
    "quiet",
    "none",
    "..",
    "%2e%2e",
    "open.git",
    "a%0d%0ab",
    "",
]
REVISIONS = [
    *("main", "main", "v1", "dev", "refs%2Fheads%2Fmain", "refs/pr/1", "a" + "+" * 99, "a%2B" * 40, "HEAD"),
    *(
        "0" * 40,
        "..",
        "%2e%2e%2fmain",
        "main%00",
        "%ff",
        "x" * 300,
        "main~1",
        "*",
        "%F0%9F%98%80",
        "a%2fb",
        "",
    ),
]
PATHS = [
    *(
        "a.txt",
        "sub/b.txt",
        "sub",
        "README.md",
        "manifest.json",
        f"{MARKER.decode()}.txt",
        "none",
        "../a.txt",
    ),
    *(
        "%2e%2e/%2e%2e/secret.txt",
        "..%2f..%2fsecret.txt",
        "/etc/passwd",
        "//etc/passwd",
        ".mirror/key",
        "sub/",
    ),
    *(
        "sub//b.txt",
        "a.txt%00",
        "%ff",
        "a" * 1100,
        "/".join("a" * 300),
        "a.txt/../a.txt",
        "link.txt",
        "out/secret.txt",
    ),
    *("%5c..%5csecret.txt", "<script>", "%0d%0aX-Injected:%201", "*", "settings.json", "%E2%80%AE"),
]
QUERIES = [
    *(
        "recursive=1",
        "expand=1",
        "recursive=true&expand=true",
        "cursor=1",
        "cursor=999999999",
        "cursor=-1",
        "limit=1",
    ),
    *(
        "limit=99999999999999999999",
        "search=op",
        "search=%ff",
        "author=lab",
        "blobs=1",
        "create_pr=1",
        "a" * 3000,
    ),
    *(
        "size=1&until=9999999999&signature=0",
        "size=%F0%9F%98%80&until=x&signature=%ff",
        "&&&=;=%",
        "recursive=%00",
    ),
]
API, GIT = "/api/datasets/{owner}/{name}", "/datasets/{owner}/{name}.git/info/lfs/objects"
ROUTES = [
    *(
        ("GET", route)
        for route in ("/", "/catalog.json", "/api/whoami-v2", "/api/datasets", API, "/nothing", "*")
    ),
    *(
        ("GET", f"{API}/{rest}")
        for rest in ("revision/{revision}", "auth-check", "refs", "commits/{revision}")
    ),
    *(("GET", f"{API}/tree/{{revision}}{rest}") for rest in ("", "/{path}")),
    *(
        ("GET", route)
        for route in ("/datasets/{owner}/{name}", "/datasets/{owner}/{name}/resolve/{revision}/{path}")
    ),
    ("GET", "/datasets/{owner}/{name}/resolve/{revision}/{path}"),
    ("GET", f"{API}/xet-write-token/{{revision}}"),
    ("POST", "/api/validate-yaml"),
    ("POST", f"{API}/paths-info/{{revision}}"),
    ("POST", "/api/repos/create"),
    ("DELETE", "/api/repos/delete"),
    ("PUT", f"{API}/settings"),
    *((method, f"{API}/{what}/{{revision}}") for method in ("POST", "DELETE") for what in ("branch", "tag")),
    ("POST", f"{API}/preupload/{{revision}}"),
    ("POST", f"{API}/commit/{{revision}}"),
    ("POST", f"{API}/commit/main"),
    ("POST", f"{GIT}/batch"),
    ("PUT", f"{GIT}/{{oid}}"),
    ("POST", f"{GIT}/{{oid}}/verify"),
]
TOKENS = [
    *([None] * 5),
    *([f"Bearer {TOKEN}"] * 7),
    *(f"bearer {TOKEN}", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}x", "Bearer", "Bearer x", "Basic eDp5"),
    *("\xff\xfe", "Bearer " + "a" * 5000),
]
RANGES = [
    "bytes=0-0",
    "bytes=-1",
    "bytes=5-2",
    "bytes=0-",
    "bytes=" + "9" * 5000 + "-",
    "bytes=0-1,3-4",
    "rows=1",
    "-",
]
TYPES = [
    "application/json",
    "application/x-ndjson",
    "application/x-www-form-urlencoded",
    "multipart/form-data",
    "\xff",
]
HOSTS = [
    HOST,
    HOST,
    HOST,
    HOST,
    HOST,
    HOST,
    b"localhost",
    b"evil.example",
    b"",
    b"<script>",
    b"[::1]:1",
    b"127.0.0.1:0",
]
OIDS = ["a" * 64, "0" * 64, "..", "%2e%2e", "A" * 64, "a" * 63, "%00" * 64, "x"]

BOMB = "a: &a [x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{','.join([f'*{chr(97 + n)}'] * 9)}]\n" for n in range(20)
)
MERGES = "a0: &a0 {x: 1}\n" + "".join(
    f"a{n}: &a{n}\n  <<: [{', '.join([f'*a{n - 1}'] * 20)}]\n" for n in range(1, 30)
)
#: Heads of cards, those that were found to kill the server among them.
CARDS = [
    *(
        "---\nlicense: mit\n---\n# card",
        "---\n" + "- " * 200_000 + "\n---\n",
        "---\n" + "[" * 25_000 + "\n---\n",
    ),
    *(
        "---\n" + "{a: " * 20_000 + "\n---\n",
        f"---\n{BOMB}---\n",
        f"---\n{MERGES}---\n",
        "---\na: 2001-99-99\n---\n",
    ),
    *(
        "---\n? [1]\n: 2\n---\n",
        "---\n!!python/object:os.system x\n---\n",
        "---\na: 0x\n---\n",
        "---\na: 1:99:-1\n---\n",
    ),
    *(
        "---\n&a [*a]\n---\n",
        "---\na: !!float x\n---\n",
        "---\na: !!timestamp 1\n---\n",
        "---\n\x00\n---\n",
        "---\r\n- \r\n",
    ),
    *(
        "---\n" + "a: |\n" * 5000 + "---\n",
        "---\n%YAML 9.9\n---\n---\n",
        "\ufeff---\na: 1\n---\n",
        "---\n'\n---\n",
        "",
    ),
    *(
        "---\na: " + "9" * 5000 + "\n---\n",
        "---\na: 0b2\n---\n",
        "---\n=: =\n---\n",
        "---\n<<: 1\n---\n",
        "---\n- !!int _\n---\n",
    ),
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
        return any(value.decode("latin-1").lower() == f"bearer {TOKEN}" for name, value in self.headers)

    def raw(self) -> bytes:
        """As it goes over a socket."""
        body = b"".join(self.pieces)
        lines = [f"{self.method} {self.target} HTTP/1.1".encode()]
        lines += [name + b": " + value for name, value in self.headers]
        lines += [b"content-length: %d" % len(body)] if self.pieces else []
        return b"\r\n".join([*lines, b"", body])


def asked(seed: int, rng: random.Random | None = None) -> Asked:
    rng = rng or random.Random(seed)
    method, route = rng.choice(ROUTES)
    parts = {"owner": OWNERS, "name": NAMES, "revision": REVISIONS, "path": PATHS, "oid": OIDS}
    # Most parts are right, or no request would come far.
    chosen = {name: rng.choice(some[:3] if rng.random() < 0.7 else some) for name, some in parts.items()}
    target = route.format(**chosen)
    if rng.random() < 0.3:
        target += "?" + rng.choice(QUERIES)
    if rng.random() < 0.05:
        method = rng.choice(["HEAD", "OPTIONS", "PATCH", "TRACE", "PUT", "get", "X" * 30])
    made = Asked(method if method != "GET" or rng.random() < 0.8 else "HEAD", target)
    made.headers = list(_headers(rng))
    if method not in ("GET", "HEAD") or rng.random() < 0.05:
        body = body_of(route, rng)
        if rng.random() < 0.1:
            body = body[: rng.randrange(len(body) + 1)]
        made.pieces = list(_cut(body, rng))
        made.whole = rng.random() < 0.95
    return made


def _headers(rng: random.Random) -> Iterator[tuple[bytes, bytes]]:
    yield b"host", rng.choice(HOSTS)
    if token := rng.choice(TOKENS):
        yield b"authorization", token.encode("latin-1")
    if rng.random() < 0.2:
        yield b"range", rng.choice(RANGES).encode()
    if rng.random() < 0.1:
        yield b"if-none-match", rng.choice([b"*", b'"x"', b'W/"x", ' * 500, b"\xff"])
    if rng.random() < 0.1:
        yield b"if-range", rng.choice([b'"x"', b"*", b"Sun, 22 Nov 2026 00:00:00 GMT"])
    if rng.random() < 0.5:
        yield b"content-type", rng.choice(TYPES).encode("latin-1")
    if rng.random() < 0.1:
        yield b"user-agent", rng.choice([b"datasets/4.6.0;", b"datasets/9999.0", b"\x1b[2J", b"a" * 8000])
    if rng.random() < 0.1:
        yield b"x-shiftdata-upload", b"lfs"
    if rng.random() < 0.05:
        yield rng.choice([(b"host", b"evil.example"), (b"authorization", b"Bearer x"), (b"origin", b"null")])


def _cut(body: bytes, rng: random.Random) -> Iterator[bytes]:
    while len(body) > 1 and rng.random() < 0.5:
        at = rng.randrange(len(body))
        yield body[:at]
        body = body[at:]
    yield body


def body_of(route: str, rng: random.Random) -> bytes:
    """A body that the route could take, mostly with something wrong in it."""
    if rng.random() < 0.1:
        return rng.choice(
            [
                b"",
                b"null",
                b"[]",
                b"\xff\xfe",
                b"[" * 100_000,
                b'{"a":' * 50_000,
                b"\0" * 1000,
                b"\n" * 50_000,
            ]
        )
    if route.endswith("validate-yaml"):
        card = rng.choice(CARDS)
        if rng.random() < 0.3:
            card = f"---\n{odd_text(rng)}: {odd_text(rng)}\n---\n"
        return _json({"content": card, "repoType": "dataset"}, rng, odd=0.1)
    if "/commit/" in route:
        return _commit(rng)
    if "paths-info" in route and rng.random() < 0.5:
        return rng.choice(
            [b"paths=a.txt&expand=1", b"paths=%ff", b"paths=" + b"a" * 2000, b"paths=x&" * 6000]
        )
    return _json(_value(route, rng), rng, odd=0.5)


def _value(route: str, rng: random.Random) -> Any:
    name = rng.choice(["new", "open", "quiet", "..", "a/b", "folder", "n" * 97])
    objects = [{"oid": rng.choice(OIDS), "size": rng.choice([0, 1, 10**12])} for _ in range(rng.randrange(3))]
    values: dict[str, Callable[[], Any]] = {
        "repos/": lambda: {
            "name": name,
            "organization": "lab",
            "type": "dataset",
            "private": rng.random() < 0.5,
        },
        "settings": lambda: rng.choice([{"private": True}, {"visibility": "public"}, {"gated": "auto"}]),
        "branch": lambda: {"startingPoint": rng.choice(["main", "none", "v1"])},
        "tag": lambda: {"tag": rng.choice(["v2", "../x", "a" + "+" * 99, "main", "0" * 40])},
        "preupload": lambda: {
            "files": [{"path": rng.choice(PATHS), "size": rng.choice([1, 10**9, -1]), "sample": "eA=="}]
        },
        "paths-info": lambda: {"paths": rng.choices(PATHS, k=3), "expand": rng.random() < 0.5},
        "objects": lambda: {"operation": "upload", "objects": objects},
    }
    return next((make() for part, make in values.items() if part in route), {})


def _json(value: Any, rng: random.Random, odd: float) -> bytes:
    if rng.random() < odd:
        value = mutated(value, rng.randrange(2**32))
    return json_text(value, rng.randrange(2**32)).encode(errors="surrogatepass")


def _commit(rng: random.Random) -> bytes:
    def file_line(path: str, content: bytes) -> dict[str, Any]:
        value = {"path": path, "content": base64.b64encode(content).decode(), "encoding": "base64"}
        return {"key": "file", "value": value}

    lines: list[Any] = [
        {"key": "header", "value": {"summary": "more", "description": "", "parentCommit": ""}}
    ]
    for _ in range(rng.randrange(4)):
        path = rng.choice(["a.txt", "sub/b.txt", "new.txt", "sub", *PATHS])
        lines.append(
            rng.choice(
                [
                    file_line(path, rng.randbytes(rng.choice([0, 1, 100, 5000]))),
                    {"key": "deletedFile", "value": {"path": path}},
                    {"key": "deletedFolder", "value": {"path": path}},
                    {"key": "lfsFile", "value": {"path": path, "algo": "sha256", "oid": "a" * 64, "size": 1}},
                    {
                        "key": "copyFile",
                        "value": {"path": "copy.txt", "srcPath": path, "srcRevision": "main"},
                    },
                ]
            )
        )
    if rng.random() < 0.5:
        change(lines, walk(lines, rng), rng)
    text = b"\n".join(json_text(line, 0).replace("\n", "").encode(errors="surrogatepass") for line in lines)
    blank = rng.choice([b"", b"", b"", b"\n" * 20_000, b" \n" * 20_000, b"\r\n" * 20_000, b'{"key"' * 3000])
    return text + blank
