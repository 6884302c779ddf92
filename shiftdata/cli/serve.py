"""`shiftdata serve`: a folder of datasets under the Hub's protocol."""

from __future__ import annotations

import argparse
import ipaddress
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shiftdata.errors import InputError, MissingExtraError, NotFoundError

if TYPE_CHECKING:
    from shiftdata.serving.library import Library

TOKEN_VARIABLE = "SHIFTDATA_MIRROR_TOKEN"

EPILOG = f"""examples:
  shiftdata serve build
  shiftdata serve build --host 0.0.0.0 --port 8000
  {TOKEN_VARIABLE}=... shiftdata serve /data/mirror --host 0.0.0.0 --writable

readers, on any machine, with nothing of shiftdata installed:
  export HF_ENDPOINT=http://<host>:8000
  python -c 'from datasets import load_dataset; print(load_dataset("shift/sma_emoji"))'
  hf download shift/sma_emoji --repo-type dataset

writers:
  export HF_ENDPOINT=http://<host>:8000 HF_TOKEN=<the token>
  hf upload shift/mine ./folder --repo-type dataset
  (for files above 50 MB, and push_to_hub of datasets 4.6 and later: export HF_HUB_DISABLE_XET=1 too)

In DIR, a folder with a manifest.json, a README.md or any other file is the dataset shift/<folder>, read-only
and served where it lies; a folder with sub-folders only is an owner, and they are <owner>/<folder>. DIR may
itself be a dataset. What clients upload is kept in DIR/.mirror. There is no encryption: put a proxy with TLS
before it on an open network.
"""


def add_verb(verbs: Any) -> None:
    """Add the verb to the command line."""
    verb = verbs.add_parser(
        "serve",
        help="serve a folder of datasets as a Hub of your own (HF_ENDPOINT)",
        description="Serve a folder of datasets to the Hub's own clients: to read, and from this machine "
        "alone, unless told otherwise.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verb.add_argument("dir", type=Path, metavar="DIR", help="the folder with the datasets")
    verb.add_argument(
        "--port", type=int, default=8000, help="where to listen (default: 8000; 0: any free one)"
    )
    verb.add_argument(
        "--host", default="127.0.0.1", help="the address to listen on (default: 127.0.0.1, this machine)"
    )
    verb.add_argument("--writable", action="store_true", help="let clients make datasets and upload to them")
    verb.add_argument(
        "--token",
        help=f"what writers give; others can see a command line: better ${TOKEN_VARIABLE} or --token-file",
    )
    verb.add_argument("--token-file", type=Path, help="a file with the token")
    verb.add_argument("--private", action="store_true", help="reading needs the token too")
    verb.add_argument(
        "--quiet", action="store_true", help="print the address alone, and no line for each request"
    )
    verb.set_defaults(run=run_serve)


def run_serve(options: argparse.Namespace) -> int:
    """Serve until interrupted."""
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(
            f"shiftdata serve needs {error.name}: pip install 'shiftdata[serve]'"
        ) from error
    from shiftdata.serving.access import Access
    from shiftdata.serving.library import Library
    from shiftdata.serving.request import Mirror
    from shiftdata.serving.server import listen, server

    token = _token(options)
    _check(options, token)
    library = Library(options.dir, writable=options.writable)
    bound = None
    try:
        bound = listen(options.host, options.port)
        access = Access(token, options.private, trusting=options.writable and token is None)
        _say_repos(library, quiet=options.quiet)
        _say_how(options, bound.getsockname()[1], token)
        server(Mirror(library, access), quiet=options.quiet).run(sockets=[bound])
    finally:
        if bound is not None:
            bound.close()
        library.close()
    return 0


def _token(options: argparse.Namespace) -> str | None:
    """The token: of the file, the command line or the environment."""
    if options.token_file is not None and options.token is not None:
        raise InputError("give --token or --token-file, not both")
    if options.token_file is not None:
        if not options.token_file.is_file():
            raise NotFoundError(
                f"{options.token_file} is no file: --token-file names the one that holds the token"
            )
        token: str = options.token_file.read_text().strip()
    else:
        token = (options.token if options.token is not None else os.environ.get(TOKEN_VARIABLE, "")).strip()
        if not token and options.token is None:
            return None
    if not token or any(letter.isspace() for letter in token):
        raise InputError(
            "the token is empty or holds spaces: give one word, such as `openssl rand -hex 24` prints"
        )
    return token


def _check(options: argparse.Namespace, token: str | None) -> None:
    """Refuse to open what nobody meant to open."""
    if not 0 <= options.port <= 65535:
        raise InputError(f"--port {options.port} is no port: give 0 to 65535")
    if options.private and token is None:
        raise InputError(f"--private needs a token: set {TOKEN_VARIABLE}, or give --token-file")
    if options.writable and token is None and not _is_loopback(options.host):
        raise InputError(
            f"--writable on {options.host} would let everyone on the network write: set {TOKEN_VARIABLE}, "
            "or give --token-file (on 127.0.0.1 any token is taken)"
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _say_repos(library: Library, *, quiet: bool) -> None:
    """Name what is served; files that no manifest names are hashed here, so that no reader waits for it."""
    from shiftdata.serving.folders import links_out

    lines = [
        f"  {name} is not served: it is a link that leads out of DIR" for name in links_out(library.root)
    ]
    for repo in library.repos():
        files = repo.commit("main").files
        size = sum(file.size for file in files.values()) / 1e6
        note = "  private" if repo.settings().private else ""
        lines.append(f"  {repo.owner + '/' + repo.name:<40} {len(files):>6,} files {size:>12,.1f} MB{note}")
    if not quiet:
        print("\n".join(lines or ["  no dataset yet"]), flush=True)


def _say_how(options: argparse.Namespace, port: int, token: str | None) -> None:
    """Print the line that readers type."""
    host = "<this machine>" if options.host in ("0.0.0.0", "::") else options.host
    address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    print(f"export HF_ENDPOINT={address}", flush=True)
    if options.quiet:
        return
    writing = "read-only (--writable changes that)"
    if options.writable:
        writing = "writable with the token" if token else "writable from this machine with any token"
    reading = "reading needs the token" if options.private else "everyone who reaches it may read"
    print(f"{writing}; {reading}; Ctrl-C stops it", flush=True)
