"""From a name to the place of a dataset: the search path of folders on this machine, then the Hub."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from shiftdata.data.format.manifest import FILE_NAME
from shiftdata.data.places.http import Http, Hub
from shiftdata.data.places.hubs import HubRepo
from shiftdata.data.places.remote import Remote, filesystem
from shiftdata.data.places.store import Folder, Store, is_url
from shiftdata.errors import InputError, NotFoundError
from shiftdata.logs import logger

NAMESPACE = "shift"
LOG = logger(__name__)


def search_path() -> list[Path]:
    """List the folders that are searched for datasets: $SHIFTDATA_HOME, then ./build/shift and ./shift."""
    home = [Path(part) for part in os.environ.get("SHIFTDATA_HOME", "").split(os.pathsep) if part]
    return [*home, Path("build") / NAMESPACE, Path(NAMESPACE)]


def local_datasets() -> Iterator[Path]:
    """Yield each folder with a manifest on the search path; of two with one name, the first."""
    seen = set()
    for root in search_path():
        for path in sorted(root.glob(f"*/{FILE_NAME}")):
            if path.parent.name not in seen and not path.parent.name.startswith("."):
                seen.add(path.parent.name)
                yield path.parent


def find(name: str | Path) -> Store:
    """Find a dataset by path, name (`sma_glyphs`), repo id (`shift/sma_glyphs`) or URL.

    A folder wins over the search path, and that over the Hub. Only folder entries are looked at: a URL or
    the Hub is not asked yet.
    """
    text = str(name)
    if isinstance(name, str) and is_url(name):
        return store_at(name.rstrip("/").removesuffix(f"/{FILE_NAME}"))
    folder = Path(name)
    if (folder / FILE_NAME).is_file():
        return Folder(folder)
    owner, _, short = text.rpartition("/")
    if owner in ("", NAMESPACE):
        for root in search_path():
            if (root / short / FILE_NAME).is_file():
                return Folder(root / short)
    if folder.is_absolute() or text.startswith(".") or text.count("/") > 1:
        raise no_manifest(text)
    LOG.debug("%s is in none of the folders %s", text, ", ".join(map(str, search_path())))
    return Hub(HubRepo(text if owner else f"{NAMESPACE}/{text}"))


def store_at(address: str | Path) -> Store:
    """Make the store of an address: a folder, `hf://datasets/...`, `hf+https://...`, or a URL for fsspec."""
    text = str(address)
    protocol = text.partition(":")[0].lower()
    if not is_url(text):
        return Folder(Path(text))
    if protocol in ("http", "https") and "::" not in text:
        return Http(text.rstrip("/"))
    if protocol in ("file", "local") and "::" not in text:
        return Folder(Path(filesystem(text)[1]))
    if re.match(r"[^/]*://[^/]*:[^/]*@", text):
        raise InputError("the address contains a password: set it in the environment or a configuration file")
    if protocol == "hf" or protocol.startswith("hf+"):
        return Hub(HubRepo.parse(text))
    return Remote(text.rstrip("/"))


def is_offline() -> bool:
    """Return True if the environment forbids the network, as `huggingface_hub` reads it."""
    values = (os.environ.get(name, "") for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"))
    return any(value.upper() in ("1", "ON", "YES", "TRUE") for value in values)


def no_manifest(where: str) -> NotFoundError:
    """Make the error for a place without a manifest."""
    begun = "upload is not complete" if is_url(where) else "build has not finished"
    return NotFoundError(
        f"{where} has no {FILE_NAME}: it is not a shiftdata dataset (nor is a folder of them), or its {begun}"
    )
