"""Pages in a process of their own, with a limit of memory and of time, behind a short queue.

Datasets are bytes of strangers, and pages decode them. Whatever that takes, and however it ends, those who
read files do not notice: their process only passes on what the other one answers.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from logging.handlers import BufferingHandler
from pathlib import Path
from typing import Any, TypeAlias

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from starlette.responses import Response

from shiftdata.serve.folders import Commit, Repo
from shiftdata.serve.names import LOG, Refusal
from shiftdata.untrusted.texts import read_json

#: Bytes that the process may allocate, without the libraries that it maps; seconds for one page.
MEMORY, SECONDS = 800_000_000, 20.0
#: Requests that wait, those of one address, and for how many seconds; others are answered 503.
QUEUE, SHARE, WAIT = 64, 16, 10.0
#: Seconds before the process starts again where it keeps ending: twice as many each time, up to the last.
BACKOFF, MOST_BACKOFF = 0.1, 5.0
#: Bytes of an answer.
MOST_ANSWER = 64 << 20
#: Libraries with threads reserve memory for each.
ENVIRONMENT = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MALLOC_ARENA_MAX"), "1")

Key: TypeAlias = tuple[str, str]


@dataclass(frozen=True)
class Ask:
    """A request for a page: its function in `page_routes`, the parts and the query of its path, its repos."""

    page: str
    base_url: str
    path: Mapping[str, Any]
    query: str
    heads: Sequence[tuple[Repo, Commit]]


class PageProcess:
    """The process that makes the pages of a folder, one after the other; it starts again when it ends."""

    def __init__(self, root: Path, memory: int = MEMORY, seconds: float = SECONDS) -> None:
        self._root, self._memory, self._seconds = root, memory, seconds
        # Threads of their own: however many ask for pages, those of file readers are free.
        self._turn, self._thread, self._asking = CapacityLimiter(1), CapacityLimiter(1), CapacityLimiter(4)
        self._process: subprocess.Popen[bytes] | None = None
        self._sent, self._places = dict[Key, str](), Counter[str]()
        self._ended, self._closed = 0, False  # how often in a row, and for ever
        self._lock = threading.Lock()

    async def answer(self, address: str, asked: Callable[[], Ask]) -> Response:
        """Return the page that an address asks for, or an answer that says why there is none."""
        with self._place(address):
            ask = await run_sync(asked, limiter=self._asking)
            try:
                async with asyncio.timeout(WAIT):
                    await self._turn.acquire()
            except TimeoutError:
                raise _busy() from None
            try:
                return await run_sync(self._answer, ask, limiter=self._thread, abandon_on_cancel=True)
            finally:
                self._turn.release()

    @contextmanager
    def _place(self, address: str) -> Iterator[None]:
        """Take a place in the queue, or refuse the request before it costs anything."""
        if self._places.total() > QUEUE or self._places[address] >= SHARE:
            raise _busy()
        self._places[address] += 1
        try:
            yield
        finally:
            self._places[address] -= 1
            self._places = +self._places  # without those that have no place any more

    def start(self) -> None:
        """Start the process, after a pause if it keeps ending."""
        if self._ended > 1:
            time.sleep(min(BACKOFF * 2**self._ended, MOST_BACKOFF))
        ours, its = socket.socketpair()
        # Not the current folder, in which there may be anything: what this process imports from.
        paths = {"PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
        code = "from shiftdata.serve.page_process import work; work()"
        limits = (its.fileno(), self._root, self._memory, self._seconds)
        with its:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", code, *map(str, limits)],
                pass_fds=[its.fileno()],
                env=os.environ | ENVIRONMENT | paths,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the server alone
            )
        ours.settimeout(self._seconds * 2 + 10)  # the process ends itself before, if it runs at all
        self._socket, self._stream = ours, ours.makefile("rb")
        self._sent.clear()

    def warm(self, heads: Sequence[tuple[Repo, Commit]]) -> None:
        """Open every manifest before the first request; one that comes meanwhile waits for a few of them."""

        def make_front_pages() -> None:
            for at in range(0, len(heads), 50):
                with suppress(Refusal):
                    self._answer(Ask("front_page", "", {}, "", heads[at : at + 50]))

        threading.Thread(target=make_front_pages, daemon=True).start()

    def close(self) -> None:
        """End the process for ever; a request that it works on has no answer."""
        self._closed = True
        if (process := self._process) is not None:
            process.kill()
        with self._lock:
            self._stop()

    def _stop(self) -> int:
        """End the process, and return how it ended."""
        if self._process is None:
            return 0
        process, self._process = self._process, None
        self._stream.close()
        self._socket.close()
        time.sleep(0.01)  # one that ends itself may be about to say why
        process.kill()
        return process.wait()

    def _answer(self, ask: Ask) -> Response:
        with self._lock:
            for _ in range(2):  # whoever ends the process from outside costs nobody an answer
                try:
                    return self._exchange(ask)
                except (OSError, EOFError, ValueError):
                    self._ended += 1
                    if (how := self._stop()) == -signal.SIGALRM:
                        text = f"the page takes more than {self._seconds:g} seconds"
                        raise Refusal(503, text, headers={"Retry-After": "60"}) from None
                if self._closed:
                    raise _busy()
        if how == -signal.SIGKILL:  # by somebody else, or by the system, which lacks memory
            raise _busy()
        LOG.warning("the process of pages ended twice at %s of %s", ask.page, [*map(_key, ask.heads)][:1])
        raise Refusal(422, "this page cannot be made: the process that makes pages ends each time")

    def _exchange(self, ask: Ask) -> Response:
        if self._process is None or self._process.poll() is not None:
            self._stop()
            self.start()
        listings = {_key(head): head[0] for head in ask.heads}
        new = {
            key: (repo.parts, listing)
            for key, repo in listings.items()
            if (listing := repo.listing) and self._sent.get(key) != listing.commit.id
        }
        self._socket.sendall(pickle.dumps((replace(ask, heads=()), [*listings], new)))
        self._sent |= {key: listing.commit.id for key, (_, listing) in new.items()}
        head = read_json(self._stream.readline(1 << 20) or b"{}", "the answer of a page")
        if not head or head["length"] > MOST_ANSWER:
            raise EOFError
        body = self._stream.read(head["length"])
        if len(body) < head["length"]:
            raise EOFError
        self._ended = 0
        for line in head["log"]:
            LOG.warning("%s", line)
        answer = Response(body, head["status"])
        answer.raw_headers = [(name.encode(), value.encode()) for name, value in head["headers"]]
        return answer


def _key(head: tuple[Repo, Commit]) -> Key:
    return head[0].owner, head[0].name


def _busy() -> Refusal:
    text = "no page can be made now: ask again"
    return Refusal(503, text, headers={"Retry-After": "5", "Cache-Control": "no-store"})


def work() -> None:
    """Make pages until the server has gone: the program of the process."""
    import resource

    descriptor, memory = int(sys.argv[1]), int(sys.argv[3])
    root, seconds = Path(sys.argv[2]), float(sys.argv[4])
    os.nice(10)
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    from shiftdata.serve.page_routes import respond

    repos = dict[Key, tuple[Repo, Commit]]()
    logging.getLogger().addHandler(log := BufferingHandler(1000))
    with socket.socket(fileno=descriptor) as connection, connection.makefile("rwb") as stream:
        while True:
            try:
                ask, keys, new = pickle.load(stream)
            except EOFError:
                return
            signal.setitimer(signal.ITIMER_REAL, seconds)  # whatever is running then, the process ends
            for key, (parts, listing) in new.items():  # walked and hashed once, by the server
                repos[key] = Repo(key[0], key[1], root, parts, listing), listing.commit
            answer = respond(replace(ask, heads=[repos[key] for key in keys]))
            headers = [(name.decode(), value.decode()) for name, value in answer.raw_headers]  # ASCII
            head = {"status": answer.status_code, "headers": headers, "length": len(answer.body)}
            lines = [record.getMessage()[:1000] for record in log.buffer[:10]]
            log.flush()
            signal.setitimer(signal.ITIMER_REAL, 0)
            stream.write(json.dumps(head | {"log": lines}).encode() + b"\n")
            stream.write(answer.body)
            stream.flush()
            if answer.status_code == 413:  # out of memory: what is left of it is in pieces
                return
