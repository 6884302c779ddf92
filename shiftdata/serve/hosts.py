"""The address of a server, and the names that it answers to: under a foreign one a web page could read it."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable

from starlette.requests import Request

from shiftdata.errors import StorageError
from shiftdata.serve.names import Refusal

#: A Host header: an IPv6 address in brackets, a name or an IPv4 address; and perhaps a port.
HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]{2,45})\]|([A-Za-z0-9._-]{1,253}))(?::[0-9]{1,5})?")


class Hosts:
    """The names of this machine, and those that are allowed."""

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        name = socket.gethostname().lower()
        short = name.partition(".")[0]
        self._names = {"localhost", name, short, f"{short}.local", *map(str.lower, allowed)}

    def of(self, request: Request) -> str:
        """Return the host, and perhaps the port, of the request; refuse one that is not this server's."""
        reached, port = request.scope.get("server") or ("", None)
        address = f"[{reached}]:{port}" if ":" in reached else f"{reached}:{port}"
        host = request.headers.get("host", address)  # HTTP/1.0 has none
        match = HOST.fullmatch(host)
        if not match:
            raise Refusal(400, "the Host header is not a host name")
        name = match[1] or match[2]
        if not self._has(name, reached):
            text = f"this server is not known as {name}: start it with --allowed-host {name}"
            raise Refusal(421, text)
        return host

    def _has(self, host: str, reached: str) -> bool:
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
