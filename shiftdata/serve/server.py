"""The server: uvicorn's own, except that it accepts connections only where there is room for them."""

from __future__ import annotations

import asyncio
import socket

import uvicorn

from shiftdata.serve.connections import TICK, Connection, Connections, Limits

#: Connections that are accepted in one go; others wait with the operating system, the longest-waiting first.
ACCEPTED, BACKLOG = 32, 4096

#: Bytes that the system keeps of an answer beyond what is on its way; it would take megabytes.
UNSENT = 256 << 10


class Server(uvicorn.Server):
    """uvicorn's own, with limits on its connections."""

    server_state: Connections

    def __init__(self, config: uvicorn.Config, limits: Limits) -> None:
        super().__init__(config)
        self.server_state = Connections(limits)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections where there is room for them; asyncio would until descriptors run out."""
        await self.lifespan.startup()
        self.servers = []
        self._accepting = [asyncio.create_task(self._accept(one)) for one in sockets or []]
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for one in self._accepting:
            one.cancel()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        await super().shutdown(sockets)

    async def on_tick(self, counter: int) -> bool:
        self.server_state.tick()
        return await super().on_tick(counter)

    async def _accept(self, listening: socket.socket) -> None:
        loop, state = asyncio.get_running_loop(), self.server_state
        listening.setblocking(False)
        listening.listen(BACKLOG)
        connecting: set[asyncio.Task[None]] = set()
        while True:
            await state.make_room()
            if state.coming >= ACCEPTED:
                await asyncio.sleep(0)
                continue
            try:
                accepted, _ = await loop.sock_accept(listening)
            except OSError:  # it was reset since, or descriptors have run out all the same
                await asyncio.sleep(TICK)
                continue
            state.coming += 1
            task = loop.create_task(self._connect(accepted))
            connecting.add(task)
            task.add_done_callback(connecting.discard)

    async def _connect(self, accepted: socket.socket) -> None:
        def protocol() -> Connection:
            return Connection(self.config, self.server_state, self.lifespan.state)

        try:
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if hasattr(socket, "TCP_NOTSENT_LOWAT"):
                accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT)
            await asyncio.get_running_loop().connect_accepted_socket(protocol, accepted)
        except OSError:
            accepted.close()
        finally:
            self.server_state.coming -= 1
