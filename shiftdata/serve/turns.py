"""Threads for what takes time and memory: answers made in them do not keep waiting those who read files."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias, TypeVar

from anyio import CapacityLimiter
from anyio.to_thread import run_sync

from shiftdata.serve.names import Refusal

#: Seconds after which a client that was refused may ask again.
RETRY_AFTER = 5

#: The catalog, which programs read; a page or its rows; a picture, which is decoded; a task.
Work: TypeAlias = Literal["catalog", "page", "picture", "task"]
#: Threads for each kind of work, requests that wait for one, and for how many seconds.
TURNS: Mapping[Work, tuple[int, int, float]] = {
    "catalog": (2, 256, 10),
    "page": (4, 64, 10),
    "picture": (2, 64, 30),
    "task": (2, 8, 10),
}

T = TypeVar("T")


class Turns:
    """A few threads, and a short queue for them; whoever finds it full is told to ask again.

    Those who wait take up no thread: files are read in others.
    """

    def __init__(self, threads: int, queue: int, timeout: float) -> None:
        self._free, self._threads = asyncio.Semaphore(threads), CapacityLimiter(threads)
        self._queue, self._timeout = queue, timeout
        self._waiting = 0

    async def run(self, work: Callable[..., T], *given: object) -> T:
        """Return what `work` returns in one of the threads."""
        await self._wait()
        try:
            return await run_sync(work, *given, limiter=self._threads)
        finally:
            self._free.release()

    async def _wait(self) -> None:
        if self._free.locked() and self._waiting >= self._queue:
            raise _busy()
        self._waiting += 1
        try:
            async with asyncio.timeout(self._timeout):
                await self._free.acquire()
        except TimeoutError:
            raise _busy() from None
        finally:
            self._waiting -= 1


def _busy() -> Refusal:
    text = "too many pages are being made: ask again"
    return Refusal(503, text, headers={"Retry-After": f"{RETRY_AFTER}", "Cache-Control": "no-store"})
