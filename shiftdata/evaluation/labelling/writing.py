"""The table of labels while people label: one writer, every label on the disk before it is confirmed."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from shiftdata.errors import ChangedError, StorageError
from shiftdata.evaluation.labelling.purposes import Purpose
from shiftdata.evaluation.labelling.table import Key, Row, columns_for, latest, line_of, read_labels
from shiftdata.files import clear_when_full, locked, write_text
from shiftdata.tables import csv_text


class LabelFile:
    """A table that is open to add to; see `open_labels`. Its methods may be called from many threads."""

    def __init__(self, path: Path, purpose: Purpose) -> None:
        self.path, self.purpose = path, purpose
        self.rows = read_labels(path, purpose.labels, pairs=purpose.pairs) if path.exists() else []
        self._lock = threading.Lock()
        self._labels: dict[str, dict[Key, str]] = {}
        self._changes: dict[str, list[tuple[Key, str]]] = {}
        for row in self.rows:
            self._count(row)
        text = csv_text([columns_for(purpose.pairs)]) + "".join(map(line_of, self.rows))
        if (
            not path.exists() or path.read_bytes() != text.encode()
        ):  # as a spreadsheet or a killed process left it
            write_text(path, text)
        self._size = len(text.encode())

    def ask_for(self, keys: Iterable[str]) -> None:
        """Name the keys that are to be labelled, in rows without a label; others of that kind go."""
        with self._lock:
            given = [row for row in self.rows if row.label or row.who]
            known = {row.key for row in given if row.label}
            self.rows = given + [Row((key,), "", "", "") for key in sorted(keys) if (key,) not in known]
            self._write_all()

    def of(self, who: str) -> Mapping[Key, str]:
        """The labels of a person that count."""
        with self._lock:
            return dict(self._labels.get(who, {}))

    def people(self) -> dict[str, dict[Key, str]]:
        """The labels of everybody that count."""
        with self._lock:
            return latest(self.rows)

    def changes(self, who: str, since: int) -> tuple[int, list[Key]]:
        """How many rows there are, and the keys of a person's rows after the first `since`."""
        with self._lock:
            return len(self.rows), [row.key for row in self.rows[max(0, since) :] if row.who == who]

    def put(self, key: Key, label: str, who: str) -> None:
        """Add a label, or take one back with an empty one; it is on the disk when this returns."""
        with self._lock:
            self._append(Row(key, label, who, f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"))

    def undo(self, who: str) -> Key | None:
        """Take back what a person did last, and what before that; gives the key, if any."""
        with self._lock:
            if not self._changes.get(who):
                return None
            key, before = self._changes[who][-1]
            self._append(Row(key, before, who, f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"))
            return key

    def _append(self, row: Row) -> None:
        data = line_of(row).encode()
        try:
            descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        except OSError as error:
            raise StorageError(f"{self.path} cannot be written ({error.strerror}): put it back") from error
        try:
            if os.fstat(descriptor).st_size != self._size:
                raise ChangedError(
                    f"{self.path} was changed by another program: end `shiftdata label` and start it again"
                )
            with clear_when_full(self.path):
                self._write(descriptor, data)
        finally:
            os.close(descriptor)
        self._size += len(data)
        self.rows.append(row)
        self._count(row)

    def _write_all(self) -> None:
        """Write the table anew where it is not as it should be: a spreadsheet or a killed process left it."""
        text = csv_text([columns_for(self.purpose.pairs)]) + "".join(map(line_of, self.rows))
        if not self.path.exists() or self.path.read_bytes() != text.encode():
            write_text(self.path, text)
        self._size = len(text.encode())

    def _write(self, descriptor: int, data: bytes) -> None:
        """Write a whole line, or nothing."""
        try:
            while data:
                data = data[os.write(descriptor, data) :]
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, self._size)
            raise

    def _count(self, row: Row) -> None:
        """Know a row. One that restores what was before the last change is an undo of it."""
        mine, changes = self._labels.setdefault(row.who, {}), self._changes.setdefault(row.who, [])
        before = mine.pop(row.key, "")
        if row.label:
            mine[row.key] = row.label
        if changes and changes[-1] == (row.key, row.label):
            changes.pop()
        elif before != row.label:
            changes.append((row.key, before))


@contextmanager
def open_labels(path: Path, purpose: Purpose) -> Iterator[LabelFile]:
    """Open a table of labels to add to, or begin one; nobody else can meanwhile."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = path.with_name(f".{path.name}.lock")
    with locked(lock, f"another `shiftdata label` writes to {path}: use its page, or give another --out"):
        yield LabelFile(path, purpose)
