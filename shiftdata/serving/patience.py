"""What ends connections that stall: heads of requests that never end, and answers that nobody takes."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from starlette.types import Message, Send
from uvicorn.protocols.http.h11_impl import H11Protocol


class Stuck(Exception):
    """The client takes no more of its answer."""


def patient_send(send: Send, seconds: float) -> Send:
    """Give up, with `Stuck`, where a client takes nothing for so long."""

    async def sending(message: Message) -> None:
        try:
            async with asyncio.timeout(seconds):
                await send(message)
        except TimeoutError:
            raise Stuck from None

    return sending


class PatientProtocol(H11Protocol):
    """uvicorn's own protocol; but the head of a request must be complete in some seconds after it began.

    uvicorn waits for ever for the end of a head, and of a body that no one reads.
    """

    head_seconds: ClassVar[float] = 30

    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client is here: its first request must come."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Bytes came, which may complete a head, or begin one."""
        super().data_received(data)
        if not self._between_requests():
            self._stop_waiting()
        elif self._waiting is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _between_requests(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _wait(self) -> None:
        self._waiting = self.loop.call_later(self.head_seconds, self._enough)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _enough(self) -> None:
        self._waiting = None
        if self._between_requests() and not self.transport.is_closing():
            self.transport.close()
