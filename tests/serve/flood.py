"""Hostile clients, as a program of its own: `python flood.py PORT FIRST COUNT SECONDS FILE [SORT ...]`.

Each has its own loopback address, and connects again as soon as it is dropped.
"""

from __future__ import annotations

import asyncio
import random
import resource
import socket
import struct
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Sort = Callable[[Stream, bytes], Awaitable[None]]
HEAD = b"GET %s HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST /api/datasets/shift/load/paths-info/main HTTP/1.1\r\nHost: localhost\r\n"
FOREVER = 3600.0


async def send(stream: Stream, data: bytes) -> None:
    stream[1].write(data)
    await stream[1].drain()


async def until_closed(stream: Stream) -> None:
    while await stream[0].read(65536):
        pass


async def drip(stream: Stream, start: bytes, drop: bytes, seconds: float) -> None:
    await send(stream, start)
    while not stream[0].at_eof():
        await send(stream, drop)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await stream[0].read(65536)


async def slow_head(stream: Stream, file: bytes) -> None:
    await drip(stream, HEAD % b"/", b"X-Slow: a\r\n", 1)


async def slow_body(stream: Stream, file: bytes) -> None:
    await drip(stream, POST + b"Content-Length: 100000\r\n\r\n{", b" ", 1)


async def never_reads(stream: Stream, file: bytes) -> None:
    await send(stream, HEAD % file + b"\r\n")
    await asyncio.sleep(FOREVER)


async def never_reads_many(stream: Stream, file: bytes) -> None:
    await send(stream, (HEAD % file + b"\r\n") * 200)
    await asyncio.sleep(FOREVER)


async def reads_slowly(stream: Stream, file: bytes) -> None:
    await send(stream, HEAD % file + b"\r\n")
    while await stream[0].read(1):
        await asyncio.sleep(1)


async def many_small(stream: Stream, file: bytes) -> None:
    while not stream[0].at_eof():
        await send(stream, HEAD % b"/api/datasets/shift/load" + b"\r\n")
        await stream[0].read(65536)


async def reset(stream: Stream, file: bytes) -> None:
    stream[1].get_extra_info("socket").setsockopt(
        socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
    )
    await send(stream, HEAD % file + b"\r\n")
    await stream[0].read(random.choice([0, 1, 100_000]))
    stream[1].transport.abort()


async def endless_chunks(stream: Stream, file: bytes) -> None:
    await send(stream, POST + b"Transfer-Encoding: chunked\r\n\r\n")
    while not stream[0].at_eof():
        await send(stream, b"1\r\n \r\n" * 1000)
        await asyncio.sleep(0.1)


def sends(data: bytes) -> Sort:
    """Send some bytes, `FILE` in them the path of a file, and read until the server closes."""

    async def client(stream: Stream, file: bytes) -> None:
        await send(stream, data.replace(b"FILE", file))
        await until_closed(stream)

    return client


SORTS: dict[str, Sort] = {
    "no_head": sends(b""),
    "idle": sends(HEAD % b"/api/datasets" + b"\r\n"),
    "at_once": sends(HEAD % b"/nothing" + b"Connection: close\r\n\r\n"),
    "garbage": sends(HEAD % b"FILE" + b"\r\n" + random.randbytes(100_000)),
    "expects": sends(POST + b"Content-Length: 50000\r\nExpect: 100-continue\r\n\r\n"),
    "huge_head": sends(HEAD % b"/" + b"".join(b"A%d: b\r\n" % at for at in range(20_000))),
}
WRITTEN = (
    slow_head,
    slow_body,
    never_reads,
    never_reads_many,
    reads_slowly,
    many_small,
    reset,
    endless_chunks,
)
SORTS |= {sort.__name__: sort for sort in WRITTEN}


async def client(at: int, port: int, file: bytes, name: str, seen: Counter[str]) -> None:
    address = f"127.{1 + at // 40_000}.{at // 200 % 200}.{1 + at % 200}"
    while True:
        try:
            stream = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0), limit=4096)
        except OSError as error:
            seen[f"connect: {error.strerror}"] += 1
            await asyncio.sleep(0.05)
            continue
        seen[name] += 1
        with suppress(OSError, ValueError):
            await SORTS[name](stream, file)
        stream[1].transport.abort()
        await asyncio.sleep(0)


async def main(port: int, first: int, count: int, seconds: float, file: bytes, *names: str) -> None:
    sorts = names or tuple(SORTS)
    seen: Counter[str] = Counter()
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
            for at in range(first, first + count):
                group.create_task(client(at, port, file, sorts[at % len(sorts)], seen))
    print(dict(seen))


if __name__ == "__main__":
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    asyncio.run(main(*map(int, sys.argv[1:4]), float(sys.argv[4]), sys.argv[5].encode(), *sys.argv[6:]))
