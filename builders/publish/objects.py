"""Publish to a URL that fsspec writes: object storage, a server of files. Such a place has no commits."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from fsspec.callbacks import Callback

from builders.publish.held import OURS, listed_files
from builders.publish.journal import Journal, Sent
from builders.publish.plan import Plan, Tell, Verify, compare
from builders.publish.source import Source
from shiftdata.errors import InputError, IntegrityError, NotFoundError
from shiftdata.format.manifest import FILE_NAME, FileRecord
from shiftdata.places.remote import filesystem
from shiftdata.places.retry import persistently

CHUNK = 1 << 20
#: Where a file appears whole or not at all. Elsewhere it is sent under another name and then renamed.
WHOLE = {"abfs", "abfss", "adl", "az", "gcs", "gs", "memory", "oci", "oss", "s3", "s3a"}
#: What tells that a file is still the one that was written, the best first: times are told with more digits
#: in some answers than in others.
STAMPS = ("ETag", "etag", "md5", "content_md5", "crc32c", "mtime", "LastModified", "last_modified", "created")


@dataclass(frozen=True)
class ObjectTarget:
    """A URL for one dataset.

    The old manifest goes first and the new one comes last, so that at no moment a manifest lies there that
    is not true. What was sent and found well is noted in a journal on this machine.
    """

    url: str
    work: Path

    @property
    def address(self) -> str:
        """The URL."""
        return self.url

    @cached_property
    def _place(self) -> tuple[Any, str]:
        return filesystem(self.url)

    @cached_property
    def _journal(self) -> Journal:
        return Journal.of(self.url, self.work)

    def plan(self, source: Source) -> Plan:
        """Compare by size, and by the journal or else the manifest that lies there."""
        there, old = self._listing(), listed_files(self._read(FILE_NAME))

        def is_same(path: str, record: FileRecord) -> bool:
            if there[path]["size"] != record.bytes:
                return False
            noted = self._journal.sent.get(path)
            if noted is not None:
                return noted == Sent(record.sha256, _stamp(there[path]))
            if source.is_data(path):
                return path in old and old[path].sha256 == record.sha256
            return self._hash(path) == record.sha256

        return compare(source, there, is_same, OURS | set(old) | self._journal.owned)

    def carry_out(self, source: Source, plan: Plan, verify: Verify, tell: Tell) -> None:
        """Take the old manifest away, send the data, delete, send the renderings and the manifest."""
        self._journal.begin({*plan.uploads, *plan.same, *plan.deleted})
        if any(source.is_data(path) for path in plan.uploads) or plan.deleted:
            self._drop(FILE_NAME)
        try:
            data = [path for path in plan.uploads if source.is_data(path)]
            for path in data:
                self._send(source, path, verify, tell)
            for path in plan.deleted:
                self._drop(path)
            for path in [*plan.uploads[len(data) :], *self._manifest_that_went(plan)]:
                self._send(source, path, verify, tell)
        except IntegrityError:
            self._drop(FILE_NAME)
            raise
        self._journal.begin(source.files)

    def finish(self, source: Source, revision: str | None) -> str:
        """Nothing is left to do."""
        return ""

    def _manifest_that_went(self, plan: Plan) -> list[str]:
        """The manifest, where it is the same as before and was taken away for the time of the change."""
        system, root = self._place
        return [FILE_NAME] if FILE_NAME in plan.same and not system.exists(f"{root}/{FILE_NAME}") else []

    def _listing(self) -> Mapping[str, Mapping[str, Any]]:
        """What lies there, by path."""
        system, root = self._place
        system.invalidate_cache()  # what is there now, not when it was last asked
        try:
            found = persistently(lambda: system.find(root, detail=True))
        except FileNotFoundError:
            found = {}
        if not found:
            self._refuse_missing_bucket()
        return {path.removeprefix(f"{root}/"): info for path, info in found.items()}

    def _refuse_missing_bucket(self) -> None:
        system, root = self._place
        bucket = root.split("/")[0]
        if bucket and "s3" in _protocols(system) and not system.exists(bucket):
            raise NotFoundError(f"there is no bucket {bucket!r}, or you may not see it: make it first")

    def _read(self, path: str) -> bytes | None:
        system, root = self._place
        try:
            data: bytes = persistently(lambda: system.cat_file(f"{root}/{path}"))
        except FileNotFoundError:
            return None
        return data

    def _send(self, source: Source, path: str, verify: Verify, tell: Tell) -> None:
        """Send a file, look at it again, and note that it is well."""
        system, root = self._place
        record, told = source.files[path], _Told(tell)
        self._journal.forget(path)
        persistently(lambda: self._put(source.folder / path, f"{root}/{path}", told))
        told.top_up(record.bytes)
        system.invalidate_cache()
        info = system.info(f"{root}/{path}")
        well = info["size"] == record.bytes and (verify == "size" or self._hash(path) == record.sha256)
        if not well:
            raise IntegrityError(
                f"{path} did not arrive at {self.url} as it was sent ({info['size']:,} of {record.bytes:,} "
                f"bytes): the place has no {FILE_NAME} now, so that nobody believes it; publish again"
            )
        self._journal.note(path, Sent(record.sha256, _stamp(info)))

    def _put(self, file: Path, remote: str, told: _Told) -> None:
        system, _ = self._place
        told.again()
        if _protocols(system) & WHOLE:
            system.put_file(str(file), remote, callback=told)
            return
        parent, _, name = remote.rpartition("/")
        part = f"{parent}/.{name}.part"
        system.makedirs(parent, exist_ok=True)
        system.put_file(str(file), part, callback=told)
        with suppress(FileNotFoundError):
            system.rm_file(remote)  # some would not rename onto it
        system.mv(part, remote)

    def _drop(self, path: str) -> None:
        system, root = self._place
        self._journal.forget(path)
        with suppress(FileNotFoundError):
            persistently(lambda: system.rm_file(f"{root}/{path}"))

    def _hash(self, path: str) -> str:
        """The sha256 of a file as the place gives it."""
        system, root = self._place

        def read() -> str:
            digest = hashlib.sha256()
            with system.open(f"{root}/{path}", "rb", block_size=8 * CHUNK, cache_type="readahead") as stream:
                while chunk := stream.read(CHUNK):
                    digest.update(chunk)
            return digest.hexdigest()

        return persistently(read)


class _Told(Callback):  # type: ignore[misc]  # fsspec has no types
    """Tells how many bytes were sent; a new try takes back those of the last."""

    def __init__(self, tell: Tell) -> None:
        super().__init__()
        self.tell, self.told = tell, 0

    def relative_update(self, inc: int = 1) -> None:
        self.told += inc
        self.tell(inc)

    def absolute_update(self, value: int) -> None:
        self.relative_update(value - self.told)

    def again(self) -> None:
        self.absolute_update(0)

    def top_up(self, total: int) -> None:
        """Not every file system tells of each byte."""
        self.absolute_update(total)


def _stamp(info: Mapping[str, Any]) -> str:
    """What tells that a file is still the one that was written."""
    first = next((info[name] for name in STAMPS if info.get(name) is not None), "")
    return f"{info['size']} {first.timestamp() if isinstance(first, datetime) else first}"


def _protocols(system: Any) -> set[str]:
    named = system.protocol
    return {named} if isinstance(named, str) else set(named)


def refuse_passwords(url: str) -> None:
    """Refuse a URL with a password: it would stand in journals and catalogs."""
    before, at, _ = url.partition("://")[2].partition("/")[0].rpartition("@")
    if at and ":" in before:
        raise InputError(
            "the address holds a password: leave it out, and keep it where the tool of that kind of place "
            "looks for it (environment, configuration file)"
        )
