"""Publish to a URL that fsspec writes: object storage, a server of files. Such a place has no commits."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from fsspec.callbacks import Callback

from builders.objects import protocols, put_whole
from builders.publish.target import Changes, Source, Target, reads_as
from shiftdata.data.format.manifest import FILE_NAME
from shiftdata.data.places.remote import filesystem
from shiftdata.data.places.search import store_at
from shiftdata.data.places.store import FileInfo, OnBytes, Store, persistently
from shiftdata.errors import IntegrityError
from shiftdata.files import write_text
from shiftdata.stable import content_hash
from shiftdata.untrusted.texts import read_json


@dataclass
class Journal:
    """The journal of files sent to a place, kept on this machine so that a run can go on."""

    path: Path
    url: str
    #: Files of the dataset that lies there, and of the one on its way; their manifest may be gone by now.
    owned: set[str] = field(default_factory=set)
    #: Of each file that arrived whole the hash, and the version that the place gave it then.
    sent: dict[str, list[str | None]] = field(default_factory=dict)

    @classmethod
    def of(cls, url: str, work: Path) -> Journal:
        """The notes on a place; empty where there are none or they cannot be read."""
        path = work / f"{content_hash(url)[:16]}.json"
        try:
            raw = read_json(path)
            return cls(path, url, set(raw["owned"]), dict(raw["sent"]))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return cls(path, url)

    def begin(self, owned: Iterable[str]) -> None:
        self.owned = set(owned)
        self._write()

    def note(self, path: str, sha256: str, version: str | None) -> None:
        self.sent[path] = [sha256, version]
        self._write()

    def forget(self, path: str) -> None:
        if self.sent.pop(path, None):
            self._write()

    def _write(self) -> None:
        notes = dict(sorted(self.sent.items()))
        text = json.dumps({"url": self.url, "owned": sorted(self.owned), "sent": notes}, indent=1)
        write_text(self.path, text + "\n")


@dataclass(frozen=True)
class ObjectTarget(Target):
    """A URL for one dataset.

    The old manifest goes first and the new one comes last, so that at no moment a manifest lies there that
    is not true. What was sent and arrived well is noted in a journal on this machine.
    """

    url: str
    work: Path
    at: str | None = None

    @property
    def web(self) -> str | None:
        """The address that was given, or that of a public bucket."""
        return self.at or _web_of(self.url, *self._place)

    @property
    def address(self) -> str:
        return self.url

    @cached_property
    def store(self) -> Store:
        """The store that reads the place; `_place` writes it."""
        return store_at(self.url)

    @cached_property
    def _place(self) -> tuple[Any, str]:
        return filesystem(self.url)

    @cached_property
    def _journal(self) -> Journal:
        return Journal.of(self.url, self.work)

    def compare(self, source: Source) -> Changes:
        """Compare by size, and by the journal or else the manifest that lies there."""
        return self.compared(source, self.store, self._journal.owned)

    def is_same(self, source: Source, path: str, info: FileInfo) -> bool | None:
        noted = self._journal.sent.get(path)
        return None if noted is None else noted == [source.files[path].sha256, info.version]

    def apply(self, source: Source, changes: Changes, on_bytes: OnBytes) -> None:
        """Take the old manifest away, send the files, delete, and send the manifest."""
        self._journal.begin({*changes.uploads, *changes.same, *changes.deleted})
        files = [path for path in changes.uploads if path != FILE_NAME]
        if files or changes.deleted:  # also one that stays the same
            self._drop(FILE_NAME)
        try:
            for path in files:
                self._send(source, path, on_bytes)
            for path in changes.deleted:
                self._drop(path)
            self._send(source, FILE_NAME, on_bytes)
        except IntegrityError:
            self._drop(FILE_NAME)
            raise
        self._journal.begin(source.files)

    def _send(self, source: Source, path: str, on_bytes: OnBytes) -> None:
        record, progress = source.files[path], _Progress(on_bytes)
        self._journal.forget(path)
        persistently(lambda: self._put(source.file(path), path, progress))
        progress.absolute_update(record.bytes)  # not every file system reports each byte
        if not reads_as(self.store, path, record):
            raise IntegrityError(
                f"{path} did not arrive at {self.url} as it was sent: the place has no {FILE_NAME} now, so "
                "that nobody uses it; publish again"
            )
        self._journal.note(path, record.sha256, self.store.info(path).version)

    def _put(self, file: Path, path: str, progress: _Progress) -> None:
        system, root = self._place
        progress.absolute_update(0)  # a new try takes back the bytes of the last
        put_whole(system, f"{root}/{path}", lambda to: system.put_file(str(file), to, callback=progress))

    def _drop(self, path: str) -> None:
        system, root = self._place
        self._journal.forget(path)
        with suppress(FileNotFoundError):
            persistently(lambda: system.rm_file(f"{root}/{path}"))


def _web_of(url: str, system: Any, root: str) -> str | None:
    """The web address of a bucket's folder, by the convention of its service."""
    bucket, _, below = root.partition("/")
    if "s3" in protocols(system):
        own = system.endpoint_url or (system.client_kwargs or {}).get("endpoint_url")
        own = own or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        return f"{own.rstrip('/')}/{root}" if own else f"https://{bucket}.s3.amazonaws.com/{below}"
    return f"https://storage.googleapis.com/{root}" if url.startswith(("gs://", "gcs://")) else None


class _Progress(Callback):  # type: ignore[misc]  # fsspec has no types
    """Passes on how many bytes were sent since the last call."""

    def __init__(self, on_bytes: OnBytes) -> None:
        super().__init__()
        self.on_bytes, self.sent = on_bytes, 0

    def relative_update(self, inc: int = 1) -> None:
        self.sent += inc
        self.on_bytes(inc)

    def absolute_update(self, value: int) -> None:
        self.relative_update(value - self.sent)
