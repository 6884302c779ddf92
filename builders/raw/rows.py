"""Somebody's copy of a dataset as rows: Parquet files in a folder or on a Hub, read by `datasets`."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from builders.albums.folder import ENDINGS
from builders.raw.archives import Archive
from builders.raw.tree import MOST_BYTES, Tree
from shiftdata.data.places.hubs import token_for
from shiftdata.errors import InputError, StorageError
from shiftdata.files import absolute

#: A dataset on a Hub at one of its commits or tags.
PINNED = re.compile(r"([\w.-]+/[\w.-]+)@([\w.-]+)")
COLUMNS = ("image", "domain", "label")
PNG = b"\x89PNG"


def pinned(place: Path) -> re.Match[str] | None:
    """Repository and revision of a place that is not on this disk, such as `flwrlabs/pacs@<commit>`."""
    return None if place.exists() else PINNED.fullmatch(place.as_posix())


def whole_place(place: Path) -> Path:
    """A place that does not depend on the working directory."""
    return place if pinned(place) else absolute(place)


def is_copy(place: Path, *, beside_files: bool) -> bool:
    """Return True for a repository, and a folder with Parquet files; with pictures too, if `beside_files`."""
    if not parquet_files(place):
        return pinned(place) is not None
    tree = Tree(place)
    return beside_files or not (tree.archives or any(file.lower().endswith(ENDINGS) for file in tree.files))


def parquet_files(place: Path) -> list[str]:
    """The Parquet files at the top of a folder, or one folder deep."""
    found = (*place.glob("*.parquet"), *place.glob("*/*.parquet")) if place.is_dir() else ()
    return sorted(map(str, found))


@dataclass(frozen=True)
class RowsTree(Tree):
    """Rows with the columns image, domain and label as the files `<domain>/<label>/<name>`.

    A name is that which the row's picture has. With `by_content` it is made from the picture's bytes: many
    copies have lost the names. The order of rows never counts.
    """

    by_content: bool = False

    def __post_init__(self) -> None:
        """Nothing has to be on this disk."""

    @cached_property
    def archives(self) -> tuple[Archive, ...]:
        return ()

    @property
    def odd(self) -> Mapping[str, str]:
        return {}

    @cached_property
    def _rows(self) -> Any:
        """All rows of all splits, with pictures as bytes."""
        import datasets  # a second that no other layout needs

        repo = pinned(self.place)
        where: dict[str, Any] = {"path": "parquet", "data_files": parquet_files(self.place)}
        if repo:
            where = {"path": repo[1], "revision": repo[2], "token": token_for(None)}
        try:
            rows = datasets.load_dataset(**where, split="all")
        except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
            raise InputError(f"`datasets` cannot load {self.place}: {error}") from error
        if lacking := sorted({*COLUMNS} - {*rows.column_names}):
            given = ", ".join(rows.column_names)
            raise InputError(f"{self.place} has no column {' and '.join(lacking)}, only {given}")
        if not isinstance(rows.features["image"], datasets.Image):
            raise InputError(f"the column image of {self.place} is not one of pictures")
        return rows.select_columns(list(COLUMNS)).cast_column("image", datasets.Image(decode=False))

    @cached_property
    def _row_of(self) -> Mapping[str, int]:
        """The row of each file."""
        names = self._by_content() if self.by_content else self._given()
        groups = zip(self._texts("domain"), self._texts("label"), names, strict=True)
        seen, rows = Counter[str](), dict[str, int]()
        for row, (domain, label, name) in enumerate(groups):
            file = f"{domain}/{label}/{name}"
            seen[file] += 1
            if seen[file] > 1 and not self.by_content:
                raise self._nameless(f"two rows of {domain} / {label} are {name}")
            stem, dot, ending = file.rpartition(".")
            rows[file if seen[file] == 1 else f"{stem}_{seen[file]}{dot}{ending}"] = row
        return rows

    def _texts(self, column: str) -> list[str]:
        """A column as text: the names of its classes where it has some, else numbers as they are."""
        names: Sequence[str] | None = getattr(self._rows.features[column], "names", None)
        values = self._rows.data.column(column).to_pylist()
        if names is None and column == "label" and any(isinstance(value, int) for value in values):
            raise InputError(
                f"the column label of {self.place} has numbers without names, and papers number classes in "
                "several orders: give a copy whose labels have names"
            )
        texts = [str(value) if names is None or value is None else names[value] for value in values]
        return [text.replace("/", "_") for text in texts]

    def _given(self) -> list[str]:
        paths = self._part("path").to_pylist()
        if not all(paths):
            raise self._nameless(f"{paths.count(None):,} of {len(paths):,} rows have none")
        return [PurePosixPath(path.replace("\\", "/")).name for path in paths]

    def _by_content(self) -> list[str]:
        """Names by the bytes of each picture; `datasets` keeps them, so that they are read once."""
        names: list[str] = self._rows.map(
            _digests, batched=True, batch_size=100, remove_columns=list(COLUMNS)
        )["name"][:]
        return names

    def _nameless(self, why: str) -> InputError:
        return InputError(
            f"the rows of {self.place} have lost the names of their files ({why}), by which this recipe "
            "knows origins and cuts: get the authors' files, or build hub_<name>, which does without"
        )

    def _part(self, name: str) -> pa.ChunkedArray:
        return pc.struct_field(self._rows.data.column("image"), name)

    @cached_property
    def files(self) -> Mapping[str, int]:
        sizes = pc.fill_null(pc.binary_length(self._part("bytes")), 0).to_pylist()
        return {file: sizes[row] for file, row in sorted(self._row_of.items())}

    def read(self, path: str, start: int = 0, size: int = MOST_BYTES) -> bytes:
        data: bytes | None = self._rows.data.column("image")[self._row_of[path]]["bytes"].as_py()
        if data is None:
            raise StorageError(f"{path} of {self.place} has a path and no bytes: the copy is not whole")
        return data[start : start + size]


def _digests(rows: Mapping[str, Sequence[Any]]) -> dict[str, list[str]]:
    pictures = [image["bytes"] or b"" for image in rows["image"]]
    return {"name": [f"{hashlib.sha256(data).hexdigest()[:16]}{_ending(data)}" for data in pictures]}


def _ending(data: bytes) -> str:
    return ".png" if data.startswith(PNG) else ".jpg"
