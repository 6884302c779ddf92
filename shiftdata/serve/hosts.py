"""Where a server listens, and as whom it answers: another's name that leads here could act as its visitor."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable

from starlette.requests import Request

from shiftdata.errors import StorageError
from shiftdata.serve.names import Refusal

#: A Host header: a name or an address, and perhaps a port.
HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]{2,45})\]|([A-Za-z0-9._-]{1,253}))(?::[0-9]{1,5})?")


class Hosts:
    """The names of this machine, and others that were given."""

    def __init__(self, others: Iterable[str] = ()) -> None:
        name = socket.gethostname().lower()
        own = {"localhost", name, name.partition(".")[0], f"{name.partition('.')[0]}.local"}
        self._names = own | {host.lower() for host in others}

    def of(self, request: Request) -> str:
        """The host, and perhaps the port, by which the caller calls this server; any other is refused."""
        reached, port = request.scope.get("server") or ("", None)
        here = f"[{reached}]:{port}" if ":" in reached else f"{reached}:{port}"
        host = request.headers.get("host", here)  # HTTP/1.0 has none
        found = HOST.fullmatch(host)
        if not found:
            raise Refusal(400, "the Host header is not a host name")
        name = found[1] or found[2]
        if not self._has(name, reached):
            text = (
                f"this server is not known as {name}: whoever runs it can start it with --allowed-host {name}"
            )
            raise Refusal(421, text)
        return host

    def _has(self, host: str, reached: str) -> bool:
        """Whether a host is this server, which was reached at an address."""
        if host.lower().rstrip(".") in self._names:
            return True
        try:
            address = ipaddress.ip_address(host)
            return address.is_loopback or address == ipaddress.ip_address(reached)
        except ValueError:
            return False


def listen(host: str, port: int) -> socket.socket:
    """Bind the address at once, so that a problem with it is reported before anything is read."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        raise StorageError(
            f"cannot listen on {host}:{port} ({error.strerror}): give an address of this machine, "
            "and another --port if a server has this one"
        ) from error
