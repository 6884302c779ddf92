"""Where a dataset is: a folder on this machine, a repo on the Hub, or a URL that fsspec reads."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from shiftdata.errors import (
    InputError,
    IntegrityError,
    MissingExtraError,
    NotFoundError,
    ShiftdataError,
    StorageError,
    not_found,
)
from shiftdata.format.manifest import FILE_NAME, Manifest
from shiftdata.places.hubs import HubRepo

NAMESPACE = "shift"
URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*(::|://)")

#: What to install for a kind of URL, where it is not the name that fsspec says itself.
PACKAGES = {"http": "aiohttp", "https": "aiohttp", "s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs"}

#: Seconds to wait before each new try, after an error that may pass.
PAUSES = (0.5, 2.0)

T = TypeVar("T")


@dataclass(frozen=True)
class Place:
    """A dataset that was found: in `folder`, at `url`, or, with neither, on the Hub as `repo_id`."""

    repo_id: str
    folder: Path | None
    url: str | None = None

    @property
    def source(self) -> str:
        """What to hand to `datasets.load_dataset`."""
        return self.url or (self.repo_id if self.folder is None else str(self.folder))

    @property
    def on_hub(self) -> bool:
        """Whether it is to be asked from the Hub by its name."""
        return self.folder is None and self.url is None

    @property
    def address(self) -> str:
        """Where the files lie: a folder, or a URL that fsspec reads."""
        return f"hf://datasets/{self.repo_id}" if self.on_hub else self.source

    def manifest(self) -> Manifest:
        """Read the manifest; from the Hub it is downloaded into the Hub's own cache."""
        return self.parsed(self.manifest_bytes())

    def parsed(self, written: bytes) -> Manifest:
        """The manifest in some bytes that were read here."""
        where = f"{self.source}/{FILE_NAME}"
        try:
            return Manifest.from_json(written.decode(), where)
        except ShiftdataError:
            raise
        except ValueError as error:  # no UTF-8, or lists of a wrong length
            raise IntegrityError(f"{where} is not a shiftdata manifest ({error})") from error

    def manifest_bytes(self) -> bytes:
        """The manifest as it is stored."""
        if self.folder is not None:
            path = self.folder / FILE_NAME
            if not path.is_file():
                raise _no_manifest(str(self.folder))
            return path.read_bytes()
        if self.url is not None:
            return _read(self.url)
        from huggingface_hub import hf_hub_download

        try:
            return Path(hf_hub_download(self.repo_id, FILE_NAME, repo_type="dataset")).read_bytes()
        except Exception as error:  # every kind of network, access and cache trouble means the same here
            raise self._unreachable(error) from error

    def _unreachable(self, error: Exception) -> NotFoundError:
        name = self.repo_id.split("/")[-1]
        known = [path.name for path in local_datasets()]
        searched = ", ".join(str(path) for path in search_path())
        first_line = str(error).partition("\n")[0]
        hint = (
            f"Looked in {searched} (set SHIFTDATA_HOME to add folders) "
            f"and on the Hub ({type(error).__name__}: {first_line})"
        )
        if is_offline():
            hint = (
                f"Looked in {searched} (set SHIFTDATA_HOME to add folders) and in what came before from the "
                "Hub; this is offline (HF_HUB_OFFLINE or HF_DATASETS_OFFLINE is set), so it was not looked "
                f"for on the Hub itself: with the network, run `shiftdata fetch {name}`"
            )
        return not_found("dataset", name, known, hint)


def search_path() -> list[Path]:
    """The folders that are searched for datasets: $SHIFTDATA_HOME, then ./build/shift and ./shift."""
    home = [Path(part) for part in os.environ.get("SHIFTDATA_HOME", "").split(os.pathsep) if part]
    return [*home, Path("build") / NAMESPACE, Path(NAMESPACE)]


def local_datasets() -> Iterator[Path]:
    """Every folder with a manifest on the search path; of two with one name, the first."""
    seen = set()
    for root in search_path():
        for path in sorted(root.glob(f"*/{FILE_NAME}")):
            if path.parent.name not in seen:
                seen.add(path.parent.name)
                yield path.parent


def find(name: str | Path) -> Place:
    """Find a dataset by path, name (`sma_emoji`), repo id (`shift/sma_emoji`) or URL.

    A folder wins over the search path, and that over the Hub. Nothing is read but folder entries; a URL is
    not visited.
    """
    text = str(name)
    if isinstance(name, str) and URL.match(name):
        return _at_url(name)
    folder = Path(name)
    if (folder / FILE_NAME).is_file():
        return Place(f"{NAMESPACE}/{folder.resolve().name}", folder)
    owner, _, short = text.rpartition("/")
    if owner in ("", NAMESPACE):
        for root in search_path():
            if (root / short / FILE_NAME).is_file():
                return Place(f"{NAMESPACE}/{short}", root / short)
    if folder.is_absolute() or text.startswith(".") or text.count("/") > 1:
        raise _no_manifest(text)
    return Place(text if owner else f"{NAMESPACE}/{text}", None)


def is_url(address: str) -> bool:
    """Whether an address is a URL, and no path of this machine."""
    return URL.match(address) is not None


def is_offline() -> bool:
    """Whether the environment says that the network must not be touched, as `huggingface_hub` reads it."""
    said = (os.environ.get(name, "") for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"))
    return any(one.upper() in ("1", "ON", "YES", "TRUE") for one in said)


def filesystem(url: str) -> tuple[Any, str]:
    """The fsspec file system of a URL, and the URL's path in it."""
    from fsspec.core import url_to_fs

    kind = re.split("::|://", url)[0].lower()
    if kind.startswith("hf+"):
        repo = HubRepo.parse(url)
        return repo.filesystem(), repo.path
    try:
        system, root = url_to_fs(url, **_options(kind))
    except ImportError as error:
        package = PACKAGES.get(kind)
        said = f"pip install {package}" if package else str(error)
        raise MissingExtraError(
            f"cannot read {url}: {kind} URLs need a package that is not here: {said}"
        ) from error
    except ValueError as error:
        raise InputError(
            f"cannot read {url} ({error}): give a folder, a name, or a URL that fsspec knows, "
            "such as https://..., hf://datasets/..., s3://..."
        ) from error
    return system, str(root).rstrip("/")


def persistently(act: Callable[[], T]) -> T:
    """Do something with a remote place, with a few more tries where the error may pass."""
    for pause in PAUSES:
        try:
            return act()
        except Exception as error:  # each backend has its own kinds
            if _is_final(error):
                raise
            time.sleep(pause)
    return act()


def _at_url(url: str) -> Place:
    url = url.rstrip("/").removesuffix(f"/{FILE_NAME}")
    if url.startswith(("file://", "local://")):
        folder = Path(filesystem(url)[1])
        return Place(f"{NAMESPACE}/{folder.name}", folder)
    return Place(f"{NAMESPACE}/{url.rpartition('/')[2].partition('@')[0]}", None, url)


def _read(url: str) -> bytes:
    """The manifest at a URL."""
    system, root = filesystem(url)
    try:
        data: bytes = persistently(lambda: system.cat_file(f"{root}/{FILE_NAME}"))
    except FileNotFoundError as error:
        raise _no_manifest(url) from error
    except Exception as error:  # each backend has its own kinds
        raise StorageError(
            f"cannot read {url}/{FILE_NAME} ({type(error).__name__}: {error}): "
            "look at the address, the network and your access"
        ) from error
    return data


def _options(kind: str) -> dict[str, Any]:
    """What a file system is made with: aiohttp would end every download after five minutes."""
    if kind not in ("http", "https"):
        return {}
    timeout = import_module("aiohttp").ClientTimeout(total=None, sock_connect=30, sock_read=60)
    return {"client_kwargs": {"timeout": timeout, "trust_env": True}}


def _is_final(error: Exception) -> bool:
    """Whether another try would end alike: a thing that is not there, or an answer that refuses."""
    if isinstance(error, FileNotFoundError | PermissionError | ShiftdataError | NotImplementedError):
        return True
    status = getattr(error, "status", None)
    return isinstance(status, int) and 400 <= status < 500 and status not in (408, 429)


def _no_manifest(where: str) -> NotFoundError:
    left = "not all of it was uploaded" if URL.match(where) else "its build has not finished"
    return NotFoundError(f"{where} holds no {FILE_NAME}: not a shiftdata dataset, or {left}")
