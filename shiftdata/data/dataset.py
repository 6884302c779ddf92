"""A dataset, opened once: a place, its manifest and the hash of that manifest.

Metadata, tasks, readers and exports keep this object, never a name to look up again: when the place changes
underneath, they refuse instead of pairing the rows of one version with the pictures of another.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

from shiftdata.data.format.manifest import FILE_NAME, Manifest
from shiftdata.data.places.catalog import look_up, unknown_dataset
from shiftdata.data.places.http import Hub
from shiftdata.data.places.search import find, is_offline, no_manifest, store_at
from shiftdata.data.places.signatures import MOST_BYTES, SIGNATURE, Keys, check_signature, pinned
from shiftdata.data.places.store import MissingFileError, Store, in_a_line, is_url
from shiftdata.errors import ChangedError, IntegrityError, MissingExtraError, StorageError
from shiftdata.logs import logger
from shiftdata.notebook import shown

#: Seconds for which a remote place without versions is believed to be unchanged.
BELIEVED = 10.0
LOG = logger(__name__)

T = TypeVar("T")


class OpenDataset:
    """A dataset at a place, with the manifest that was there when it was opened; see `open_dataset`.

    Its rows are addressed by position, so they are only valid for this manifest: `check_unchanged` raises
    `ChangedError` once the place has another. On a Hub it is pinned to the commit it was opened at.
    """

    def __init__(self, store: Store, manifest: Manifest, sha256: str, version: str | None = None) -> None:
        self.store = store
        self.manifest = manifest
        self.sha256 = sha256
        self._version = version
        self._checked = time.monotonic()
        self._kept: dict[Any, Any] = {}
        self._lock = threading.RLock()

    def __reduce__(self) -> tuple[Any, ...]:
        return OpenDataset, (self.store, self.manifest, self.sha256, self._version)

    def __repr__(self) -> str:
        return (
            f"<{self.manifest.name} {self.manifest.version} at {self.address}, manifest {self.sha256[:12]}>"
        )

    @shown
    def _repr_html_(self) -> str:
        from shiftdata.data.loading.showing import dataset_html

        return dataset_html(self)

    @property
    def address(self) -> str:
        """An absolute path or a URL."""
        return self.store.address

    @property
    def folder(self) -> Path | None:
        """The folder on this machine, or None."""
        return self.store.folder

    @property
    def has_version(self) -> bool:
        """True if the place reports when a file changes; else readers check the hash of each example."""
        return self.store.revision is not None or self._version is not None

    def keep(self, key: object, make: Callable[[], T]) -> T:
        """Return the result of `make`, computed once for this dataset, such as its metadata."""
        with self._lock:
            if key not in self._kept:
                self._kept[key] = make()
            return cast(T, self._kept[key])

    def read_file(self, path: str) -> bytes:
        """Read a whole file of the manifest; one with another hash is an `IntegrityError`."""
        record = self.manifest.files.get(path)
        if record is None:
            raise IntegrityError(f"the manifest of {self.address} does not list {path}")
        data = self.store.read(path, record.bytes)
        if hashlib.sha256(data).hexdigest() != record.sha256:
            raise self.damaged(f"{path} is not the file that the manifest lists")
        return data

    def damaged(self, text: str) -> IntegrityError:
        """Make the error for a dataset of which `text` says what is wrong."""
        return IntegrityError(f"{self.address}: {text}: fetch or build the dataset again")

    def check_unchanged(self, *, believe: float = 0.0, force: bool = False) -> None:
        """Raise `ChangedError` if the place has another manifest now.

        `believe`: the seconds within which a remote place is not checked again. `force`: check in any case.
        """
        if self.store.revision is not None:
            return  # a commit does not change
        now = time.monotonic()
        # Without a version the manifest itself is read again, which costs too much for every step.
        wait = believe if self.has_version else max(believe, BELIEVED)
        if self.store.is_far and not force and now - self._checked < wait:
            return
        try:
            version = self.store.info(FILE_NAME).version
            if version is None or version != self._version:
                sha256 = hashlib.sha256(self.store.read(FILE_NAME)).hexdigest()
                if sha256 != self.sha256:
                    raise self._changed(f"is now {sha256[:12]}")
                self._version = version
        except MissingFileError as error:
            raise self._changed("is gone") from error
        self._checked = now

    def _changed(self, what: str) -> ChangedError:
        return ChangedError(
            f"{self.address} has changed since it was opened: its manifest was {self.sha256[:12]}, {what}. "
            "Open it again, and make tasks, loaders and exports again"
        )


#: An opened dataset, a name (`sma_glyphs`), a repo id, a folder, or a URL.
DatasetName: TypeAlias = str | Path | OpenDataset


def open_dataset(name: DatasetName) -> OpenDataset:
    """Open a dataset by name, `shift/<name>`, folder or URL; an opened one is returned as it is.

    The manifest is read now, and nothing else. Where a key is pinned, one from elsewhere must be signed by
    it, or be the one of a catalog that is.
    """
    if isinstance(name, OpenDataset):
        return name
    store = find(name)
    if isinstance(store, Hub) and not is_url(str(name)):
        return _open_by_name(str(name), store)
    try:
        dataset, written = open_store(store)
    except MissingFileError as error:
        raise no_manifest(store.address) from error
    if store.is_far and (keys := pinned()):
        check_origin(dataset, written, keys)
    return dataset


def _open_by_name(name: str, hub: Hub) -> OpenDataset:
    """Open a dataset that is in no folder: from the places of its catalog entry, or else from the Hub."""
    offline, keys = is_offline(), pinned()
    entry, notes = look_up(name, offline=offline, keys=keys)
    reasons, short = [], hub.repo.repo_id.partition("/")[2]
    for store in map(store_at, entry.places) if entry else [hub]:
        try:
            dataset, written = open_store(store)
        except (StorageError, MissingExtraError) as error:
            reasons.append(f"{store.address}: {in_a_line(error)}")
            LOG.info("%s is not at %s", name, reasons[-1])
            continue
        if entry is None and keys:
            check_origin(dataset, written, keys, short)
        if entry is None or dataset.sha256 == entry.manifest:
            return dataset
        reasons.append(f"{store.address}: has another version than the catalog names")
    raise unknown_dataset(short, reasons, notes, offline=offline)


def open_store(store: Store) -> tuple[OpenDataset, bytes]:
    """Open the dataset in a store, and return the bytes of its manifest; a Hub is pinned to a commit."""
    if isinstance(store, Hub):
        pinned, written = store.pinned(FILE_NAME)
        return opened(pinned, written), written
    version = store.info(FILE_NAME).version
    written = store.read(FILE_NAME)
    return opened(store, written, version), written


def check_origin(dataset: OpenDataset, written: bytes, keys: Keys, name: str | None = None) -> bytes:
    """Return the signature of a manifest that was just read, or raise an error if none of the keys made it.

    `name`: what the dataset was asked for by; a signed one of another name is not it.
    """
    try:
        signature: bytes | None = dataset.store.read(SIGNATURE, MOST_BYTES)
    except MissingFileError:
        signature = None
    check_signature(f"{dataset.address}/{FILE_NAME}", written, signature, keys)
    if name not in (None, dataset.manifest.name):
        raise IntegrityError(
            f"{dataset.address} has the dataset {dataset.manifest.name}, which is signed, and not {name}: "
            "give its address if you want it under this name"
        )
    return signature or b""


def opened(store: Store, written: bytes, version: str | None = None) -> OpenDataset:
    """Make the dataset whose manifest was just read."""
    manifest = Manifest.from_json(written, f"{store.address}/{FILE_NAME}")
    dataset = OpenDataset(store, manifest, hashlib.sha256(written).hexdigest(), version)
    LOG.info("opened %r", dataset)
    return dataset
