"""`shiftdata serve`: a folder of datasets under the Hub's protocol."""

from __future__ import annotations

import ipaddress
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from shiftdata.cli.verbs import check_token, read_token, verb
from shiftdata.data.format.manifest import FILE_NAME
from shiftdata.errors import InputError
from shiftdata.extras import require

if TYPE_CHECKING:
    from shiftdata.serve.library import Library

VARIABLE = "SHIFTDATA_MIRROR_TOKEN"
#: Seconds after which a thread that reads a file gets its turn, in a process that does nothing else. Python's
#: 0.005, several times for each request, are long while the server is busy with connections.
SWITCH = 0.0005


@verb(
    f"""
    examples:
      shiftdata serve build
      shiftdata serve build --host 0.0.0.0 --port 8000
      {VARIABLE}=... shiftdata serve /data/mirror --host 0.0.0.0 --writable
      shiftdata serve build --results pages/erm-rwg --results report.html
      shiftdata serve /data/mirror --fsck

    In a browser the same address shows every dataset, its groups, any task of it, and the results. A private
    mirror asks for the token first.

    on other machines, without shiftdata (writers also set HF_TOKEN, and HF_HUB_DISABLE_XET=1):
      export HF_ENDPOINT=http://<host>:8000
      python -c 'from datasets import load_dataset; print(load_dataset("shift/sma_emoji"))'
      hf upload shift/mine ./folder --repo-type dataset

    A folder with a manifest.json or a README.md is a dataset, read-only and served where it lies: DIR/<name>
    as shift/<name>, DIR/<owner>/<name> as <owner>/<name>, and DIR itself if it is one. Uploads are kept in
    DIR/.mirror. The server answers to localhost, its addresses, the name of the machine and each
    --allowed-host. There is no encryption: on an open network, put a proxy with TLS before it, and name the
    proxy with --trusted-proxy.
    """,
    interrupted="stopped",
)
@click.argument("folder", metavar="DIR", type=Path, help="The folder with the datasets.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, metavar="N", help="0 is any free port.")
@click.option("--host", default="127.0.0.1", metavar="ADDRESS", help="0.0.0.0 listens to every network.")
@click.option("--writable", is_flag=True, help="Let clients create datasets and upload to them.")
@click.option("--token-file", type=Path, metavar="FILE", help=f"A file with the token, or set {VARIABLE}.")
@click.option(
    "--allowed-host",
    multiple=True,
    metavar="NAME",
    help="A name by which clients call this server, such as lab.example.org; can be given several times.",
)
@click.option(
    "--trusted-proxy",
    multiple=True,
    metavar="ADDRESS",
    help="A proxy whose X-Forwarded-For and X-Forwarded-Proto are believed; can be given several times.",
)
@click.option(
    "--connections",
    type=click.IntRange(1),
    default=3072,
    metavar="N",
    help="Open connections at most; each may need two open files.",
)
@click.option(
    "--connections-per-address",
    type=click.IntRange(1),
    default=1024,
    metavar="N",
    help="The same, from one address.",
)
@click.option(
    "--results",
    multiple=True,
    type=Path,
    metavar="PATH",
    help="Show a folder of `shiftdata evaluate --page`, or a report's HTML file; can be given several times.",
)
@click.option("--private", is_flag=True, help="Reading needs the token too.")
@click.option("--fsck", is_flag=True, help="Check all that is stored against its hashes, mend, and end.")
@click.option("--quiet", is_flag=True, help="Print only the address, and no line for each request.")
def command(
    folder: Path,
    port: int,
    host: str,
    writable: bool,
    token_file: Path | None,
    allowed_host: tuple[str, ...],
    trusted_proxy: tuple[str, ...],
    connections: int,
    connections_per_address: int,
    results: tuple[Path, ...],
    private: bool,
    fsck: bool,
    quiet: bool,
) -> int:
    """Serve a folder of datasets to browsers, and to the Hub's own clients, which only need HF_ENDPOINT.

    By default it is read-only and can be reached from this machine only. A few threads make its pages; the
    limits are in docs/distribution.md. With --fsck it serves nothing: it
    hashes every uploaded file, moves what is damaged to DIR/.mirror/damaged, removes what no dataset names,
    and ends with status 1 if there are problems.
    """
    if os.open not in os.supports_dir_fd:
        raise InputError(
            "shiftdata serve needs Linux or macOS: it opens files by the folder they are in. On Windows, "
            "serve from WSL, or put the datasets on any web server that knows Range"
        )
    require("starlette", "shiftdata serve")
    require("uvicorn", "shiftdata serve")
    from shiftdata.serve.app import server
    from shiftdata.serve.checking import Background, Check
    from shiftdata.serve.connections import Limits
    from shiftdata.serve.hosts import listen
    from shiftdata.serve.library import Library
    from shiftdata.serve.request import Mirror
    from shiftdata.serve.results import read_results

    token = os.environ.get(VARIABLE, "").strip() or None
    if token_file or token:
        token = read_token(token_file) if token_file else check_token(str(token), VARIABLE)
    if private and token is None:
        raise InputError(f"--private needs a token: set {VARIABLE}, or give --token-file")
    if writable and token is None and not _is_loopback(host):
        raise InputError(
            f"--writable on {host} would let everyone on the network write: set {VARIABLE}, "
            "or give --token-file (on 127.0.0.1 any token is accepted)"
        )
    shown = read_results(results)
    writes = writable or (fsck and (folder / ".mirror").is_dir())
    library = Library(folder, writable=writes, results=shown.values())
    try:
        if fsck:
            found = Check(library).run()
            print("\n".join([*found.problems, str(found)]))
            print(f"{len(found.problems):,} problems" if found.problems else "all well")
            return 1 if found.problems else 0
        with listen(host, port) as bound:
            repos = _repos(library)
            readers = "reading needs the token" if private else "everyone who can reach it may read"
            writers = "with the token" if token else "from this machine with any token"
            writing = f"writable {writers}" if writable else "read-only (--writable changes that)"
            if not quiet:
                print("\n".join(repos or [_nothing(folder)]))
            print(f"export HF_ENDPOINT=http://{_shown(host)}:{bound.getsockname()[1]}", flush=True)
            if not quiet:
                print(f"{writing}; {readers}; Ctrl-C stops it", flush=True)
            sys.setswitchinterval(SWITCH)
            limits = Limits(connections, connections_per_address, proxies=_proxies(trusted_proxy))
            hosts = _hosts(host, allowed_host)
            mirror = Mirror(library, token, private, results=shown, hosts=hosts)
            with Background(library):
                server(mirror, limits=limits, quiet=quiet).run(sockets=[bound])
        return 0
    finally:
        library.close()


def _hosts(host: str, allowed: tuple[str, ...]) -> frozenset[str]:
    for name in allowed:
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,253}", name):
            raise InputError(f"--allowed-host {name!r} is not a host name: give it without http:// and port")
    return frozenset({*allowed, host} - {"0.0.0.0", "::"})


def _proxies(addresses: tuple[str, ...]) -> frozenset[str]:
    for address in addresses:
        try:
            ipaddress.ip_address(address)
        except ValueError:
            raise InputError(f"--trusted-proxy {address!r} is not an IP address") from None
    return frozenset(addresses)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _shown(host: str) -> str:
    if host in ("0.0.0.0", "::"):
        return "<this machine>"
    return f"[{host}]" if ":" in host else host


def _nothing(folder: Path) -> str:
    """What is said where there is no dataset; those that lie deeper may have been meant."""
    deeper = sorted({one.parent.parent for one in folder.glob(f"*/*/*/{FILE_NAME}") if one.is_file()})
    hint = f"; there are some in {deeper[0]}: serve that folder" if deeper else ""
    where = "DIR/<name> or DIR/<owner>/<name>"
    return f"  no dataset yet: one is a folder with {FILE_NAME} or README.md, {where}{hint}"


def _repos(library: Library) -> list[str]:
    """What is served; files without a manifest are hashed here, so that no reader waits for it."""
    lines = []
    for repo, commit in library.heads():
        note = "  private" if repo.settings().private else ""
        name, size = f"{repo.owner}/{repo.name}", commit.bytes / 1e6
        lines.append(f"  {name:<40} {len(commit.files):>6,} files {size:>12,.1f} MB{note}")
    return lines
