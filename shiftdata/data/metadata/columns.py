"""The rows of a base, column by column, in files that are here or far away."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from shiftdata.data.arrays import IntArray
from shiftdata.data.dataset import OpenDataset
from shiftdata.data.format.paths import in_order, row_files
from shiftdata.data.format.schema import DRAWN, POINTER_COLUMNS, columns
from shiftdata.data.places.client import NoRangesError
from shiftdata.data.places.store import MissingFileError
from shiftdata.errors import IntegrityError
from shiftdata.untrusted import parquet as untrusted
from shiftdata.untrusted.pages import UnreadableError
from shiftdata.untrusted.parquet import ParquetReader

#: Files of fewer bytes are read whole, once: most of their bytes are footer and columns anyway.
SMALL = 1 << 18

T = TypeVar("T")


def read_columns(
    dataset: OpenDataset,
    path: str,
    names: Sequence[str],
    *,
    groups: Sequence[int] | None = None,
    coded: Sequence[str] = (),
) -> pa.Table:
    """Read columns of a file, or of some row groups; `coded` are texts to read with a dictionary.

    Of a file that is far away, only their bytes and the footer are fetched.
    """
    table = _opened(dataset, path, names, lambda file: file.read(names, groups, coded))
    return table.replace_schema_metadata(None)


def read_footer(dataset: OpenDataset, path: str, names: Sequence[str]) -> pq.FileMetaData:
    """Return the footer of a file, which must have these columns; read once for an opened dataset."""
    return _opened(dataset, path, names, lambda file: file.footer)


def _opened(dataset: OpenDataset, path: str, names: Sequence[str], use: Callable[[ParquetReader], T]) -> T:
    record, name = dataset.manifest.files.get(path), f"{dataset.address}: {path}"

    def checked(source: Any, **options: Any) -> T:
        with ParquetReader(source, name, **options) as file:
            _check_columns(dataset, path, names, file.schema)
            return use(file)

    def whole() -> T:
        most = record.bytes if record else SMALL
        return checked(dataset.keep(("file", path), lambda: dataset.store.read(path, most)))

    try:
        if dataset.folder is not None:
            dataset.store.info(path)  # refuses a pipe, which has no end
            here = dataset.folder / path
            # Parsed for each block of rows, a footer that describes all would cost rows times rows.
            footer = dataset.keep(("footer", path), lambda: untrusted.read_footer(here, name))
            return checked(here, footer=footer)
        if record is not None and record.bytes <= SMALL:
            return whole()
        try:
            with dataset.store.open(path) as source:
                footer = dataset.keep(("footer", path), lambda: untrusted.read_footer(source, name))
                return checked(source, footer=footer, far=True)
        except NoRangesError:
            return whole()
    except (MissingFileError, UnreadableError) as error:
        dataset.check_unchanged(force=True)
        raise dataset.damaged(f"{path} cannot be read ({error})") from error


def _check_columns(dataset: OpenDataset, path: str, names: Sequence[str], stored: pa.Schema) -> None:
    """Refuse a file that lacks columns, has one twice, or has one of another type than shiftdata writes."""
    if missing := [name for name in names if stored.names.count(name) != 1]:
        raise dataset.damaged(f"{path} lacks the columns {', '.join(missing)}, or has them twice")
    known = columns(dataset.manifest.roles.nuisance) | POINTER_COLUMNS | DRAWN
    for name, kind in ((name, stored.field(name).type) for name in names if name in known):
        if kind != known[name]:
            raise dataset.damaged(f"{path} has {kind} in its column {name}, and not {known[name]}")


#: The rows that are read at once: a column of texts is in memory as a whole only if `take` returns it.
BLOCK = 1_000_000


#: The draws of each key of a frozen set, on average, and the draws that any set may have.
MOST_TIMES, MOST_DRAWS = 100, 10_000_000


def check_draws(counts: pa.ChunkedArray, where: str) -> None:
    """Refuse counts of draws that no protocol makes: a few keys could fill the memory."""
    least, drawn = pc.min(counts).as_py() or 0, pc.sum(counts.cast(pa.int64())).as_py() or 0
    if len(counts) and (least < 1 or drawn > (most := max(MOST_DRAWS, MOST_TIMES * len(counts)))):
        given = f"{where} draws a key {least} times" if least < 1 else f"{where} draws {drawn:,} rows"
        limit = "give 1 or more" if least < 1 else f"at most {most:,} are read"
        raise IntegrityError(f"{given}: {limit}; freeze the task again")


def as_array(column: pa.Array | pa.ChunkedArray) -> NDArray[Any]:
    """Return numbers without nulls as an array; `to_numpy` would import pandas."""
    chunks = [chunk for chunk in getattr(column, "chunks", [column]) if len(chunk)]
    return np.concatenate([np.from_dlpack(chunk) for chunk in chunks]) if chunks else np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class FileRows:
    """Rows of a base in its metadata files, or in the indices of its tars, split after split."""

    dataset: OpenDataset
    base: str
    names: list[str]

    @cached_property
    def files(self) -> dict[str, str]:
        """The split of each file, in order."""
        manifest = self.dataset.manifest
        splits = in_order(manifest.base(self.base).splits)
        return {path: split for split in splits for path in row_files(manifest.files, self.base, split)}

    @cached_property
    def groups(self) -> dict[str, IntArray]:
        """The ends of the row groups of each file, counted over all files; from their footers."""
        ends, total = {}, 0
        for path in self.files:
            footer = read_footer(self.dataset, path, self.names)
            sizes = [footer.row_group(number).num_rows for number in range(footer.num_row_groups)]
            ends[path] = total + np.cumsum([0, *sizes])
            total = int(ends[path][-1])
        for split, record in self.dataset.manifest.base(self.base).splits.items():
            rows = sum(int(ends[path][-1] - ends[path][0]) for path, of in self.files.items() if of == split)
            if rows != record.rows:
                raise self.dataset.damaged(f"{self.base}/{split} has {rows:,} rows, and not {record.rows:,}")
        return ends

    @property
    def splits(self) -> dict[str, int]:
        """The number of rows of each split."""
        sizes = dict.fromkeys(self.files.values(), 0)
        for path, ends in self.groups.items():
            sizes[self.files[path]] += int(ends[-1] - ends[0])
        return sizes

    def __len__(self) -> int:
        return max((int(ends[-1]) for ends in self.groups.values()), default=0)

    def blocks(
        self, names: Sequence[str], among: IntArray | None = None, *, coded: Sequence[str] = ()
    ) -> Iterator[tuple[slice, pa.Table]]:
        """Yield columns block by block, of all rows or of the sorted rows `among`, with their places there.

        Row groups without any of the rows are not read. `coded` are texts that come with a dictionary, if
        they are in files.
        """
        for number, (path, ends) in enumerate(self.groups.items()):
            sizes, wanted = np.diff(ends), np.arange(len(ends) - 1)
            if among is not None:
                inside = np.searchsorted(among, ends)
                wanted = np.flatnonzero(np.diff(inside))
            firsts = np.cumsum(sizes[wanted]) - sizes[wanted]
            most = 4 * BLOCK if coded else BLOCK  # fewer blocks repeat fewer texts
            parts = np.split(wanted, np.flatnonzero(np.diff(firsts // most)) + 1)
            for part in parts if len(wanted) or not number else ():  # at least one, if an empty one
                table = read_columns(self.dataset, path, names, groups=part.tolist(), coded=coded)
                table = table.select(list(names))
                if among is None or not len(part):
                    start = int(ends[part[0]]) if len(part) else 0
                    yield slice(start, start + len(table)), table
                    continue
                mine = slice(int(inside[part[0]]), int(inside[part[-1] + 1]))
                group = np.searchsorted(ends, among[mine], side="right") - 1
                before = np.cumsum(sizes[part]) - sizes[part]  # in the table
                at = among[mine] - ends[group] + before[np.searchsorted(part, group)]
                # Rows may repeat: an equal number of rows need not be all of them.
                every = len(at) == len(table) and (np.diff(at) == 1).all()
                yield mine, table if every else table.take(pa.array(at))
        self.dataset.check_unchanged()  # else these rows may be of another version
