"""The files of authors, in a folder or a zip: read once, bounded, hashed together."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import TypeVar
from zipfile import BadZipFile

import pyarrow as pa

from shiftdata.bench.records import IMPORTED
from shiftdata.errors import InputError, NotFoundError
from shiftdata.files import open_regular
from shiftdata.untrusted.archives import open_zip
from shiftdata.untrusted.limits import check, most

Parsed = TypeVar("Parsed")
FAULTS = (ValueError, KeyError, TypeError, AttributeError, IndexError, csv.Error, pa.ArrowException)


class Files:
    """Every file that is read counts in `content_id`, by name and content."""

    def __init__(self, path: Path, on_file: Callable[[], object]) -> None:
        if not path.exists():
            raise NotFoundError(f"there is no {path}: give the folder or the zip that the authors published")
        self.path, self._on_file, self._hash = path, on_file, hashlib.sha256()

    @property
    def content_id(self) -> str:
        return f"{IMPORTED}{self._hash.hexdigest()}"

    def parsed(
        self, pattern: str, parse: Callable[[str, bytes], Parsed], *, optional: bool = False
    ) -> Iterator[Parsed]:
        """Yield what `parse` makes of each file that matches, by name; its faults name the file."""
        name = ""
        for name, data in self._contents(pattern):
            self._hash.update(f"{name}\0{len(data)}\0".encode() + data)
            try:
                yield parse(name, data)
            except FAULTS as error:
                raise InputError(f"{self.path}: {name} has another form: {error!r:.200}") from error
            self._on_file()
        if not name and not optional:
            raise InputError(f"{self.path} has no {pattern}: give the folder or the zip that has these files")

    def _contents(self, pattern: str) -> Iterator[tuple[str, bytes]]:
        if self.path.is_dir():
            for path in sorted(self.path.rglob(pattern)):
                with open_regular(path) as stream:
                    data = stream.read(most("csv_bytes") + 1)
                check("csv_bytes", len(data), path.name)
                yield path.relative_to(self.path).as_posix(), data
            return
        try:
            with open_zip(self.path) as archive:
                for name in sorted(archive.namelist()):
                    if PurePosixPath(name).match(pattern) and not name.startswith("__MACOSX/"):
                        yield name, archive.read(name)
        except BadZipFile as error:
            raise InputError(f"{self.path} is neither a folder nor a whole zip") from error
