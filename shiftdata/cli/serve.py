"""`shiftdata serve`: a folder of datasets under the Hub's protocol."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import re
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from shiftdata.cli.verbs import check_token, verb
from shiftdata.data.format.manifest import FILE_NAME
from shiftdata.errors import InputError
from shiftdata.extras import require

if TYPE_CHECKING:
    from shiftdata.serve.folders import Commit, Repo

VARIABLE = "SHIFTDATA_MIRROR_TOKEN"
#: Seconds after which a thread that reads a file gets its turn; Python's 0.005 are long in a busy server.
SWITCH_INTERVAL = 0.0005
NO_DATASET = f"  no dataset yet: one is DIR/<name> or DIR/<owner>/<name> with {FILE_NAME} or README.md"


@verb(
    """
    examples:
      shiftdata serve build
      shiftdata serve build --host 0.0.0.0 --port 8000 --allowed-host data.lab.example
      shiftdata serve --tokens readers.toml --new-token anna       # prints her token, once
      shiftdata serve /data/private --tokens readers.toml --host 0.0.0.0

    In a browser the same address shows every dataset, its groups, and any task of it.

    on other machines, without shiftdata:
      export HF_ENDPOINT=http://<host>:8000
      python -c 'from datasets import load_dataset; print(load_dataset("shift/sma_glyphs"))'

    A folder with a manifest.json or a README.md is a dataset, served where it lies: DIR/<name> as
    shift/<name>, DIR/<owner>/<name> as <owner>/<name>, and DIR itself if it is one. The server answers to
    localhost, its addresses, the name of the machine and each --allowed-host. There is no encryption: on an
    open network, put a proxy with TLS in front of it, and name the proxy with --trusted-proxy.
    """,
    interrupted="stopped",
)
@click.argument("folder", metavar="DIR", type=Path, required=False, help="The folder with the datasets.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, metavar="N", help="0 is any free port.")
@click.option("--host", default="127.0.0.1", metavar="ADDRESS", help="0.0.0.0 listens to every network.")
@click.option("--tokens", type=Path, help=f"Readers need a token of this file, or the one in {VARIABLE}.")
@click.option("--new-token", metavar="NAME", help="Add a reader to --tokens, print the token, and stop.")
@click.option("--allowed-host", multiple=True, help="A name by which clients call this server; repeatable.")
@click.option("--trusted-proxy", multiple=True, help="A proxy whose X-Forwarded headers hold; repeatable.")
@click.option("--page-memory", type=click.IntRange(300), default=800, metavar="MB", help="For making pages.")
@click.option("--quiet", is_flag=True, help="Print only the address, and no line for each request.")
def command(
    folder: Path | None,
    port: int,
    host: str,
    tokens: Path | None,
    new_token: str | None,
    allowed_host: tuple[str, ...],
    trusted_proxy: tuple[str, ...],
    page_memory: int,
    quiet: bool,
) -> int:
    """Serve a folder of datasets to browsers, and to the Hub's own clients, which only need HF_ENDPOINT.

    It only reads, and can be reached from this machine only unless --host says more. With tokens, nobody
    reads without one: clients send it as HF_TOKEN, browsers ask for it as a password.
    """
    if os.open not in os.supports_dir_fd:
        raise InputError("shiftdata serve needs Linux or macOS: on Windows, serve from WSL")
    require("starlette", "shiftdata serve")
    require("h11", "shiftdata serve")
    from shiftdata.serve import readers
    from shiftdata.serve.app import make_app
    from shiftdata.serve.connections import Limits
    from shiftdata.serve.folders import Library
    from shiftdata.serve.logs import start_log
    from shiftdata.serve.page_process import PageProcess
    from shiftdata.serve.request import Mirror, listen

    if new_token is not None:
        if tokens is None:
            raise InputError("--new-token needs --tokens FILE, to which it adds the hash of the token")
        print(readers.new_token(tokens, new_token))
        return 0
    if folder is None:
        raise InputError("give the folder with the datasets: shiftdata serve DIR")
    if token := os.environ.get(VARIABLE, "").strip() or None:
        check_token(token, VARIABLE)
    library = Library(folder)
    pages = PageProcess(library.root, page_memory * 1_000_000)
    names, limits = _hosts(host, allowed_host), Limits(proxies=_proxies(trusted_proxy))
    mirror = Mirror(library, token, hosts=names, limits=limits, tokens=tokens, pages=pages)
    with listen(host, port) as bound, closing(pages):
        pages.start()  # it imports what pages need while the folder is listed
        heads = library.heads()  # files without a manifest are hashed here, so that no reader waits for it
        start_log(quiet=quiet)
        pages.warm(heads)
        datasets = [_line(*head) for head in heads] or [NO_DATASET]
        who = "everyone who can reach it may read" if mirror.readers.is_open else "reading needs a token"
        address = f"export HF_ENDPOINT=http://{_address(host)}:{bound.getsockname()[1]}"
        print("\n".join([address] if quiet else [*datasets, address, f"{who}; Ctrl-C stops it"]), flush=True)
        sys.setswitchinterval(SWITCH_INTERVAL)
        asyncio.run(mirror.connections.serve(make_app(mirror), bound))
    return 0


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


def _address(host: str) -> str:
    if host in ("0.0.0.0", "::"):
        return "<this machine>"
    return f"[{host}]" if ":" in host else host


def _line(repo: Repo, commit: Commit) -> str:
    """Describe a dataset in a line."""
    return (
        f"  {f'{repo.owner}/{repo.name}':<40} {len(commit.files):>6,} files {commit.bytes / 1e6:>12,.1f} MB"
    )
