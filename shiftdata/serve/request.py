"""What every route needs: the mirror, the caller, the repo in the path, the body within bounds."""

from __future__ import annotations

import ipaddress
import re
import socket
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

from starlette.requests import Request

from shiftdata.errors import StorageError
from shiftdata.serve.connections import Connections, Limits, group_of
from shiftdata.serve.folders import Commit, Library, Repo
from shiftdata.serve.names import Refusal, no_repo
from shiftdata.serve.page_process import PageProcess
from shiftdata.serve.readers import Readers

#: A Host header: an IPv6 address in brackets, a name or an IPv4 address; and perhaps a port.
HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]{2,45})\]|([A-Za-z0-9._-]{1,253}))(?::[0-9]{1,5})?")


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


#: The text that clients know as "this token is wrong"; another one of a 401 they take for "no such repo".
WRONG_TOKEN = "Invalid credentials in Authorization header"
#: A browser asks for the token as a password.
ASK_FOR_TOKEN = {"WWW-Authenticate": 'Basic realm="the token of this server", charset="UTF-8"'}


@dataclass
class Mirror:
    """The server: its repos, who may read them, its limits, and the process of its pages, if not this one."""

    library: Library
    token: str | None = field(default=None, repr=False)
    hosts: frozenset[str] = frozenset()  # more names by which it is known
    limits: Limits = field(default_factory=Limits)
    tokens: Path | None = None
    pages: PageProcess | None = None

    def __post_init__(self) -> None:
        self.readers = Readers(self.token, self.tokens)
        self.connections = Connections(self.limits)
        name = socket.gethostname().lower()
        short = name.partition(".")[0]
        self._names = {"localhost", name, short, f"{short}.local", *map(str.lower, self.hosts)}

    def host_of(self, request: Request) -> str:
        """Return the host, and perhaps the port, of the request; refuse one that is not this server's."""
        reached, port = request.scope.get("server") or ("", None)
        address = f"[{reached}]:{port}" if ":" in reached else f"{reached}:{port}"
        host = request.headers.get("host", address)  # HTTP/1.0 has none
        match = HOST.fullmatch(host)
        if not match:
            raise Refusal(400, "the Host header is not a host name")
        name = match[1] or match[2]
        if name.lower().rstrip(".") not in self._names and not _is_address(name, reached):
            raise Refusal(421, f"this server is not known as {name}: start it with --allowed-host {name}")
        return host

    def may_read(self, request: Request) -> bool:
        """Return True for everybody if there are no tokens, else for their readers; the log names these."""
        if self.readers.is_open:
            return True
        reader = self.readers.name_of(request.headers.get("authorization", ""), address_of(request))
        request.scope["state"]["reader"] = reader or "-"
        return reader is not None


def _is_address(host: str, reached: str) -> bool:
    """Return True for an address of this machine alone, and for the one that the request has reached."""
    try:
        address = ipaddress.ip_address(host)
        return address.is_loopback or address == ipaddress.ip_address(reached)
    except ValueError:
        return False


def mirror_of(request: Request) -> Mirror:
    """The server that received a request."""
    mirror: Mirror = request.app.state.mirror
    return mirror


def address_of(request: Request) -> str:
    """Return the caller's address, as `group_of` counts addresses."""
    return group_of(request.client.host if request.client else "")


def part(request: Request, name: str, default: str = "") -> str:
    """A part of the path; it was routed as it came, and is decoded here, once."""
    try:
        return unquote(request.path_params.get(name, default), errors="strict")
    except UnicodeDecodeError:
        raise Refusal(400, "the path is not UTF-8", "EntryNotFound") from None


def repo_of(request: Request) -> Repo:
    """The repo that the path names. Without the token, one that is missing looks like any other."""
    mirror, owner, name = mirror_of(request), part(request, "owner"), part(request, "name")
    if not mirror.may_read(request):
        raise no_repo(owner, name, status=401, headers=ASK_FOR_TOKEN)
    repo = mirror.library.get(owner, name)
    if repo is None:
        raise no_repo(owner, name)
    return repo


def check_reader(request: Request) -> Mirror:
    """Refuse a caller who may not read."""
    mirror = mirror_of(request)
    if not mirror.may_read(request):
        text = "this needs the mirror's token: set HF_TOKEN to it, or give it as the password"
        raise Refusal(401, text, shown=WRONG_TOKEN, headers=ASK_FOR_TOKEN)
    return mirror


def visible_repos(request: Request) -> list[tuple[Repo, Commit]]:
    """Every repo with its newest commit, for a caller who may read."""
    return check_reader(request).library.heads()


def base_url(request: Request) -> str:
    """The server as the caller calls it, if that is a name of this server; any other is refused."""
    return f"{request.url.scheme}://{mirror_of(request).host_of(request)}"
