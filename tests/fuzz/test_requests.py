"""Generated requests to the mirror: each is answered in time, and shows only what it may."""

from __future__ import annotations

import asyncio
import logging
import random
import re
import shutil
import socket
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote

import pytest
from hypothesis import example, given

from shiftdata.serve.app import ROUTES, make_app
from shiftdata.serve.connections import Limits
from shiftdata.serve.folders import Library
from shiftdata.serve.request import Mirror
from tests.fuzz.datasets import honest
from tests.fuzz.guard import SECRET, confined
from tests.fuzz.mutations import SEEDS, fuzzed
from tests.fuzz.requests import (
    HOST,
    IN_PATHS,
    PARAMETER,
    PARTS,
    RIGHT,
    TOKEN,
    Asked,
    Reply,
    answered,
    asked,
    query_names,
)
from tests.serve.serving import Process, Running, request, serving

#: Seconds of processor time for one request.
MOST_SECONDS = 5.0
FINE = range(100, 500)
MAY_REFUSE = (503,)
#: The content of every file that is served: only the token may see it.
MARKER = b"private-5e1f"


#: The address of a file: its folder and its path.
FILE = re.compile(r"/datasets/shift/([^/]+)/resolve/[^/]+/([^?]+)(?:\?.*)?")


def check(served: Path, request: Asked, reply: Reply) -> None:
    assert reply.status in FINE or reply.status in MAY_REFUSE
    assert reply.ended
    assert SECRET not in reply.body
    assert b"Traceback" not in reply.body
    assert request.has_token or MARKER not in reply.everything
    assert reply.status != 503 or b"retry-after" in dict(reply.headers)
    if reply.status in (200, 206) and request.method == "GET" and (name := FILE.fullmatch(request.target)):
        data, place = (
            (served / name[1] / unquote(name[2])).read_bytes(),
            dict(reply.headers).get(b"content-range"),
        )
        if place is not None:
            first, last = map(int, re.findall(rb"\d+", place)[:2])
            data = data[first : last + 1]
        assert reply.body == data, "other bytes than the file's"
    names = [name for name, _ in reply.headers]
    assert b"x-injected" not in names
    assert not [value for _, value in reply.headers if b"\r" in value or b"\n" in value]
    length = dict(reply.headers).get(b"content-length")
    if length is not None and reply.ended and request.method != "HEAD" and reply.status not in (204, 304):
        assert int(length) == len(reply.body)
    assert names.count(b"content-length") <= 1


def run(served: Path, requests: Sequence[Asked], *, at_once: bool = False) -> None:
    """Ask one server: one request after the other, or all at once."""
    app = make_app(Mirror(Library(served), TOKEN, limits=Limits(request_timeout=0.1)))

    async def checked(request: Asked) -> None:
        began = time.process_time()
        try:
            check(served, request, await asyncio.wait_for(answered(app, request), 60))
            assert at_once or time.process_time() - began < MOST_SECONDS
        except BaseException as error:
            body = b"".join(request.pieces)[:2000]
            error.add_note(f"{request.method} {request.target} {request.headers} {body!r}")
            raise

    async def session() -> None:
        if at_once:
            await asyncio.gather(*map(checked, requests))
        else:
            for request in requests:
                await checked(request)

    asyncio.run(session())


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Datasets and a folder, with a secret outside of them."""
    top = tmp_path_factory.mktemp("top")
    folder = top / "served" / "folder"
    (folder / "sub").mkdir(parents=True)
    (top / "secret.txt").write_bytes(SECRET)
    for name in ("README.md", "a.txt", "sub/b.txt"):
        (folder / name).write_bytes(MARKER)
    (folder / ".env").write_bytes(SECRET)
    (folder / "link.txt").symlink_to(top / "secret.txt")
    (top / "served" / "out").symlink_to(top)
    for kind in ("stylized", "continuous"):
        dataset = honest(tmp_path_factory, kind)
        shutil.copytree(dataset, top / "served" / dataset.name)
    return top / "served"


def test_the_generator_knows_every_route_and_parameter():
    """A new parameter gets its values in `PARTS`: the first ones right, the others odd."""
    in_paths = {name for route in ROUTES for name in PARAMETER.findall(route.path)}
    assert in_paths | query_names() == set(PARTS)
    assert in_paths - query_names() == {*IN_PATHS}


@fuzzed(2)
@given(SEEDS)
def test_no_request_fails_leaks_or_writes(served, seed):
    rng, before = random.Random(seed), snapshot(served)
    with confined(served.parent, served):
        run(served, [asked(seed, rng) for _ in range(rng.randint(1, 12))], at_once=seed % 3 == 0)
    assert snapshot(served) == before


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    """Every entry, its size and time."""
    states = {str(path): path.lstat() for path in folder.rglob("*")}
    return {path: (state.st_size, state.st_mtime_ns) for path, state in states.items()}


LONG = "a" + "+" * 99  # a revision whose quoted name no disk can store
HEADERS = [(b"host", HOST), (b"authorization", f"Bearer {TOKEN}".encode())]
REGRESSIONS = [
    Asked("GET", f"/datasets/shift/folder/resolve/{LONG}/a.txt", HEADERS),
    Asked("GET", f"/api/datasets/shift/folder/commits/{LONG}", HEADERS),
    Asked("POST", "/api/datasets/shift/folder/paths-info/main", HEADERS, [b"paths=" + b"a/" * 30_000]),
]


def test_requests_that_once_failed(served):
    run(served, REGRESSIONS)


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
        b"content-length: 5", b"content-length: 5, 6", b"content-length: -1", b"content-length: 9999999999",
        b"transfer-encoding: chunked", b"transfer-encoding: gzip, chunked", b"transfer-encoding: identity",
        b"expect: 100-continue", b"upgrade: websocket", b"connection: close, keep-alive", b"host: a\0b",
        b"no colon", b": nothing", b" folded", b"x: " + b"a" * 20_000, b"\xff\xfe: x", b"x" * 70_000,
        b"x:\x0b",
    ]  # fmt: skip
    starts = [
        b"GET", b"GET / HTTP/9.9", b"GET / HTTP/1.0", b"\0\1", b"GET  /  HTTP/1.1", b"PRI * HTTP/2.0",
    ]  # fmt: skip
    chunks = [
        b"5\r\nhello\r\n0\r\n\r\n", b"ffffffffffffffff\r\n", b"-1\r\n\r\n", b"5;x\r\nhel", b"0" * 9000,
    ]  # fmt: skip
    match rng.randrange(6):
        case 0:
            lines.insert(rng.randint(1, len(lines)), rng.choice(odd))
        case 1:
            lines[0] = rng.choice(starts)
        case 2:
            at = rng.randrange(len(raw))
            return raw[:at] + rng.randbytes(rng.randrange(20)) + raw[at + rng.randrange(20) :]
        case 3:
            others = [line for line in lines if not line.startswith(b"content-length")]
            return b"\r\n".join([*others, b"transfer-encoding: chunked", b"", rng.choice(chunks)])
        case 4:
            return raw.replace(b"\r\n", b"\n")
        case 5:
            lines += [b"x-%d: y" % number for number in range(300)]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


@pytest.fixture(scope="module")
def mirror(served: Path) -> Iterator[Running]:
    with serving(served, token=TOKEN) as running:
        errors = Errors(logging.ERROR)
        logging.getLogger("shiftdata.serve").addHandler(errors)
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
            assert int(line.split()[1]) in (*MAY_REFUSE, 505)
    _, _, last = received.partition(b"\r\nconnection: close\r\n")
    assert b"HTTP/1.1" not in last, "an answer follows the one that closes"
    assert SECRET not in received
    assert any(right.encode() in data for right in RIGHT) or MARKER not in received
    assert request(mirror.port, "GET", "/api/datasets").status == 401


@pytest.mark.slow
def test_the_process_stays_small(served):
    server = Process(served, "--quiet", env={"SHIFTDATA_MIRROR_TOKEN": TOKEN})
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
