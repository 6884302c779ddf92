"""Generated requests to the mirror: each is answered in time, and shows and changes only what it may."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import shutil
import socket
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import example, given

from shiftdata.serve.app import make_app
from shiftdata.serve.library import Library
from shiftdata.serve.request import Mirror
from tests.fuzz.guard import SECRET, confined
from tests.fuzz.mutations import SEEDS, fuzzed
from tests.fuzz.requests import CARDS, HOST, MARKER, TOKEN, Asked, asked
from tests.serve.hostile import file_line
from tests.serve.serving import Process, Running, request, serving

#: Seconds of processor time for one request.
MOST_SECONDS = 5.0
FINE = range(100, 500)
MAY_REFUSE = (503, 507)


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


async def ask(app: Any, one: Asked) -> Reply:
    """One request, as uvicorn hands it over."""
    raw_path, _, query = one.target.encode().partition(b"?")
    reply, left = Reply(), list(one.pieces) or [b""]

    async def receive() -> Any:
        if left:
            piece = left.pop(0)
            return {"type": "http.request", "body": piece, "more_body": bool(left) or not one.whole}
        if one.whole:
            await asyncio.Event().wait()  # the client waits for its answer
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        reply.take(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": one.method,
        "scheme": "http",
        "path": raw_path.decode(),
        "raw_path": raw_path,
        "query_string": query,
        "root_path": "",
        "headers": one.headers,
        "client": ("127.0.0.1", 50000),
        "server": ("127.0.0.1", 8000),
        "state": {"piece": lambda: 256 << 10},  # as a `Connection` says how much to read at a time
    }
    await app(scope, receive, send)
    return reply


def check(one: Asked, reply: Reply, *, owner: bool) -> None:
    assert reply.status in FINE or reply.status in MAY_REFUSE
    assert reply.ended or not one.whole
    assert SECRET not in reply.body
    assert b"Traceback" not in reply.body
    assert owner or MARKER not in reply.everything or MARKER in one.target.encode()
    if not owner and b"quiet" not in one.target.encode() + b"".join(one.pieces):
        assert b"quiet" not in reply.everything, "a private repo is listed"
    names = [name for name, _ in reply.headers]
    assert b"x-injected" not in names
    assert not [value for _, value in reply.headers if b"\r" in value or b"\n" in value]
    length = dict(reply.headers).get(b"content-length")
    if length is not None and reply.ended and one.method != "HEAD" and reply.status not in (204, 304):
        assert int(length) == len(reply.body)
    assert names.count(b"content-length") <= 1


def run(served: Path, requests: Sequence[Asked], *, at_once: bool = False) -> None:
    """Ask one server: one request after the other, or all at once."""
    library = Library(served, writable=True)
    app = make_app(Mirror(library, TOKEN, regular_bytes=100_000, resumable_bytes=1000))
    # By an owner, who may make public what was private.
    opened = at_once and any(one.has_token and "settings" in one.target for one in requests)

    async def one_by_one(one: Asked) -> None:
        nonlocal opened
        before, began = stored(served), time.process_time()
        try:
            reply = await asyncio.wait_for(ask(app, one), 60)
            opened |= one.has_token and "settings" in one.target
            check(one, reply, owner=one.has_token or opened)
            if not at_once:
                assert time.process_time() - began < MOST_SECONDS
                assert one.has_token or stored(served) == before, "written without the token"
        except BaseException as error:
            error.add_note(f"{one.method} {one.target} {one.headers} {b''.join(one.pieces)[:2000]!r}")
            raise

    async def session() -> None:
        if at_once:
            await asyncio.gather(*map(one_by_one, requests))
        else:
            for one in requests:
                await one_by_one(one)

    try:
        asyncio.run(session())
    finally:
        library.close()


def stored(served: Path) -> dict[str, bytes]:
    """What clients have uploaded, without what is on its way."""
    paths = (path for path in (served / ".mirror").rglob("*") if "tmp" not in path.parts and path.is_file())
    return {str(path): path.read_bytes() for path in paths}


def owned(method: str, target: str, *lines: Any) -> Asked:
    body = b"\n".join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines)
    headers = [(b"host", HOST), (b"authorization", f"Bearer {TOKEN}".encode())]
    return Asked(method, target, headers, [body])


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A mirror with an open, a private, a gated repo and a folder, and a secret beside it."""
    top = tmp_path_factory.mktemp("mirrors") / "template"
    folder = top / "served" / "folder"
    folder.mkdir(parents=True)
    (top / "secret.txt").write_bytes(SECRET)
    (folder / "a.txt").write_text("plain")
    (folder / "link.txt").symlink_to(top / "secret.txt")
    (top / "served" / "out").symlink_to(top)
    requests = []
    for name in ("open", "quiet", "gated"):
        body = {"name": name, "organization": "lab", "type": "dataset", "private": name == "quiet"}
        requests.append(owned("POST", "/api/repos/create", body))
        secret = b"" if name == "open" else MARKER
        paths = [("a.txt", b"plain" + secret), ("sub/b.txt", b"x" * 3000), ("README.md", secret)]
        paths += [(f"{MARKER.decode()}.txt", secret)] if name == "quiet" else []
        title = f"first {secret.decode()}" if name == "quiet" else "first"
        lines = [{"key": "header", "value": {"summary": title}}, *(file_line(*one) for one in paths)]
        api = f"/api/datasets/lab/{name}"
        requests += [
            owned("POST", f"{api}/commit/main", *lines),
            owned("POST", f"{api}/tag/main", {"tag": "v1"}),
        ]
        requests.append(owned("POST", f"{api}/branch/dev", {"startingPoint": "main"}))
    requests.append(owned("PUT", "/api/datasets/lab/gated/settings", {"gated": "manual"}))
    run(top / "served", requests)
    assert len(list((top / "served" / ".mirror").rglob("commits/*"))) >= 6
    return top


def fresh(template: Path) -> Path:
    """A copy to be attacked."""
    top = template.parent / "attacked"
    shutil.rmtree(top, ignore_errors=True)
    shutil.copytree(template, top, symlinks=True)
    return top


@fuzzed(2)
@given(SEEDS)
def test_no_request_fails_leaks_or_writes_without_the_token(template, seed):
    rng, top = random.Random(seed), fresh(template)
    with confined(top, top / "served"), patch("os.fsync"):
        run(top / "served", [asked(seed, rng) for _ in range(rng.randint(1, 12))], at_once=seed % 3 == 0)


@pytest.mark.parametrize("token", [None, TOKEN])
def test_no_card_kills_the_server_or_takes_long(template, token):
    headers = [(b"host", HOST), *([(b"authorization", f"Bearer {token}".encode())] if token else [])]
    cards = [json.dumps({"content": card}).encode() for card in CARDS]
    run(fresh(template) / "served", [Asked("POST", "/api/validate-yaml", headers, [card]) for card in cards])


LONG = "a" + "+" * 99  # a revision whose quoted name no disk can store
HEADER = b'{"key": "header", "value": {"summary": "x"}}'
FOUND = [
    owned("POST", "/api/datasets/lab/open/tag/main", {"tag": LONG}),
    owned("DELETE", f"/api/datasets/lab/open/tag/{LONG}", {}),
    owned("POST", f"/api/datasets/lab/open/branch/{LONG}", {"startingPoint": "main"}),
    owned("POST", "/api/datasets/lab/open/branch/new", {"startingPoint": LONG}),
    Asked("GET", f"/datasets/lab/open/resolve/{LONG}/a.txt", [(b"host", HOST)]),
    Asked("GET", f"/api/datasets/lab/open/commits/{LONG}", [(b"host", HOST)]),
    owned("POST", "/api/datasets/lab/open/commit/main", HEADER, b"\n" * 2_000_000),
    owned("POST", "/api/datasets/lab/open/commit/main", HEADER, b" \r\n" * 700_000),
    owned("POST", "/api/datasets/lab/open/commit/main", HEADER, b'{"key": "file", ' * 60_000),
    owned("POST", "/api/datasets/lab/open/commit/main", b"[" * 100_000),
    owned("PUT", "/api/datasets/lab/open/settings", b'{"a":' * 50_000),
    owned("POST", "/api/repos/create", {"name": "a\x1b[2J", "organization": "lab", "type": "dataset"}),
    owned("POST", "/api/datasets/lab/open/paths-info/main", {"paths": ["a/" * 2000] * 5000, "expand": True}),
]


def test_what_was_found(template):
    run(fresh(template) / "served", FOUND)


def garbage(seed: int) -> tuple[bytes, list[int]]:
    """What goes over one connection: requests one after the other, perhaps damaged; and where it pauses."""
    rng = random.Random(seed)
    data = b""
    for number in range(rng.randint(1, 5)):
        raw = asked(seed + number, rng).raw()
        if rng.random() < 0.5:
            raw = _damaged(raw, rng)
        data += raw
    if rng.random() < 0.2:
        data = data[: rng.randrange(len(data) + 1)]
    return data, sorted(rng.randrange(len(data) + 1) for _ in range(rng.randrange(3)))


def _damaged(raw: bytes, rng: random.Random) -> bytes:
    head, _, body = raw.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    odd = [
        *(
            b"content-length: 5",
            b"content-length: 5, 6",
            b"content-length: -1",
            b"content-length: 99999999999999",
        ),
        *(b"transfer-encoding: chunked", b"transfer-encoding: gzip, chunked", b"transfer-encoding: identity"),
        *(b"expect: 100-continue", b"upgrade: websocket", b"connection: close, keep-alive", b"host: a\0b"),
        *(
            b"no colon",
            b": nothing",
            b" folded",
            b"x: " + b"a" * 20_000,
            b"\xff\xfe: x",
            b"x" * 70_000,
            b"x:\x0b",
        ),
    ]
    match rng.randrange(6):
        case 0:
            lines.insert(rng.randint(1, len(lines)), rng.choice(odd))
        case 1:
            lines[0] = rng.choice(
                [
                    b"GET",
                    b"GET / HTTP/9.9",
                    b"GET / HTTP/1.0",
                    b"\0\1",
                    b"GET  /  HTTP/1.1",
                    b"PRI * HTTP/2.0",
                ]
            )
        case 2:
            at = rng.randrange(len(raw))
            return raw[:at] + rng.randbytes(rng.randrange(20)) + raw[at + rng.randrange(20) :]
        case 3:
            sizes = [
                b"5\r\nhello\r\n0\r\n\r\n",
                b"ffffffffffffffff\r\n",
                b"-1\r\n\r\n",
                b"5;x\r\nhel",
                b"0" * 9000,
            ]
            kept = [line for line in lines if not line.startswith(b"content-length")]
            return b"\r\n".join([*kept, b"transfer-encoding: chunked", b"", rng.choice(sizes)])
        case 4:
            return raw.replace(b"\r\n", b"\n")
        case 5:
            lines += [b"x-%d: y" % number for number in range(300)]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


@pytest.fixture(scope="module")
def mirror(template: Path) -> Iterator[Running]:
    top = template.parent / "running"
    shutil.copytree(template, top, symlinks=True)
    served = serving(top / "served", writable=True, token=TOKEN, regular_bytes=100_000)
    with patch("shiftdata.serve.connections.LINGERS", 0.1), served as running:
        errors = Errors(logging.ERROR)
        logging.getLogger("uvicorn.error").addHandler(errors)
        yield running
    assert errors.lines == []


class Errors(logging.Handler):
    """What a server logs as its own failure."""

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


def talk(port: int, data: bytes, pauses: Sequence[int]) -> bytes:
    """What comes back for some bytes, sent in pieces."""
    received = b""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        with suppress(OSError):  # it was refused already
            for start, end in zip([0, *pauses], [*pauses, len(data)], strict=True):
                connection.sendall(data[start:end])
            connection.shutdown(socket.SHUT_WR)
        with suppress(ConnectionError):
            while piece := connection.recv(65536):
                received += piece
    return received


@pytest.mark.slow
@fuzzed(1.5)
@given(SEEDS)
@example(15)  # a second answer behind the one that ends the connection
def test_no_bytes_on_a_connection_fail_or_leak(mirror, seed):
    data, pauses = garbage(seed)
    received = talk(mirror.port, data, pauses)
    for line in received.split(b"\r\n"):
        if line.startswith(b"HTTP/1.1 5"):
            assert int(line.split()[1]) in MAY_REFUSE
    _, _, last = received.partition(b"\r\nconnection: close\r\n")
    assert b"HTTP/1.1" not in last, "an answer follows the one that closes"
    assert SECRET not in received
    assert TOKEN.encode() in data or MARKER not in received or MARKER in data
    assert request(mirror.port, "GET", "/api/datasets").status == 200


@pytest.mark.slow
def test_the_process_stays_small(template):
    top = fresh(template)
    server = Process(top / "served", "--writable", "--quiet", env={"SHIFTDATA_MIRROR_TOKEN": TOKEN})
    try:
        with ThreadPoolExecutor(64) as clients:
            list(clients.map(lambda seed: talk(server.port, *garbage(seed)), range(1500)))
        assert server.popen.poll() is None
        status = Path(f"/proc/{server.popen.pid}/status").read_text()
        peak = int(status.partition("VmHWM:")[2].split()[0]) << 10
        assert peak < 300e6
    finally:
        server.kill()
    assert "Traceback" not in server.said
