"""The files of the installed package `embedding-atlas`, whose Python code is never imported."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from shiftdata.errors import MissingExtraError

#: Its pages have no stable interface: another minor version is another one.
VERSION = "0.26"
#: Without what its own command line needs: models, a server, GBs of torch for GPUs.
INSTALL = f"pip install 'shiftdata[explore]' && pip install --no-deps 'embedding-atlas=={VERSION}.*'"


def component() -> Path:
    """Return the script of the view as a component, which asks its page for the answer to each query."""
    return _folder("widget_static/anywidget") / "index.js"


def application() -> Path:
    """Return the folder of the view as an application without a server: DuckDB runs in the browser."""
    return _folder("static")


def _folder(name: str) -> Path:
    try:
        installed = distribution("embedding-atlas")
    except PackageNotFoundError:
        raise MissingExtraError(f"`shiftdata explore` needs embedding-atlas {VERSION}: {INSTALL}") from None
    if not installed.version.startswith(f"{VERSION}."):
        raise MissingExtraError(
            f"`shiftdata explore` is made for embedding-atlas {VERSION}, and {installed.version} is here: "
            f"{INSTALL}"
        )
    folder = Path(str(installed.locate_file("embedding_atlas"))) / name
    if not folder.is_dir():
        raise MissingExtraError(f"the package embedding-atlas lacks {name}: install it again: {INSTALL}")
    return folder
