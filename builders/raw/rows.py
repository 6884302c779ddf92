"""Somebody's copy of a dataset as rows: Parquet files in a folder, read by `datasets`."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from builders.raw.archives import Archive, Members
from shiftdata.errors import InputError

COLUMNS = ("image", "domain", "label")
PNG = b"\x89PNG"


def parquet_files(place: Path) -> list[str]:
    """The Parquet files at the top of a folder, or one folder deep."""
    return sorted(map(str, (*place.glob("*.parquet"), *place.glob("*/*.parquet"))))


class Rows(Archive):
    """Rows with the columns image, domain and label as the files `<domain>/<label>/<name>`.

    A name is that which the row's picture has. With `by_content` it is made from the picture's bytes: many
    copies have lost the names. The order of rows never counts.
    """

    def __init__(self, place: Path, *, by_content: bool) -> None:
        self._by_content = by_content
        super().__init__(place)

    def _listed(self, members: Members) -> None:
        place, by_content = self.path, self._by_content
        pictures = self._rows.data.column("image")
        if by_content:  # `datasets` keeps them, so that each picture is read once
            options = {"batched": True, "batch_size": 100, "remove_columns": list(COLUMNS)}
            names = self._rows.map(_digests, **options)["name"][:]
        else:
            paths = pc.struct_field(pictures, "path").to_pylist()
            names = [re.split(r"[\\/]", path or "")[-1] for path in paths]
        sizes = pc.fill_null(pc.binary_length(pc.struct_field(pictures, "bytes")), 0).to_pylist()
        columns = self._texts("domain"), self._texts("label"), names, sizes
        seen = Counter[str]()
        for row, (domain, label, name, size) in enumerate(zip(*columns, strict=True)):
            file = f"{domain}/{label}/{name}"
            seen[file] += 1
            if not by_content and (not name or seen[file] > 1):
                raise InputError(
                    f"the rows of {place} have lost the names of their files (row {row} of {domain} / {label}"
                    f" has {f'{name} again' if name else 'none'}), by which this recipe knows origins "
                    "and cuts: get the authors' files, or build hub_<name>, which does without"
                )
            if seen[file] > 1:
                stem, dot, ending = file.rpartition(".")
                file = f"{stem}_{seen[file]}{dot}{ending}"
            members.add(file.encode(), size, row)

    def _texts(self, column: str) -> list[str]:
        """A column as text: the names of its classes where it has some, else numbers as they are."""
        names: Sequence[str] | None = getattr(self._rows.features[column], "names", None)
        values = self._rows.data.column(column).to_pylist()
        if names is None and column == "label" and any(isinstance(value, int) for value in values):
            raise InputError(
                f"the column label of {self.path} has numbers without names, and papers number classes in "
                "several orders: give a copy whose labels have names"
            )
        texts = [str(value) if names is None or value is None else names[value] for value in values]
        return [text.replace("/", "_") for text in texts]

    @cached_property
    def _rows(self) -> Any:
        return _loaded(self.path)

    def read(self, row: int, start: int, size: int) -> bytes:
        number = self.members["start"][row].as_py()
        data: bytes = self._rows.data.column("image")[number]["bytes"].as_py()
        return data[start : start + size]


def _loaded(place: Path) -> Any:
    """All rows of all splits, with pictures as bytes."""
    import datasets  # a second that no other layout needs

    try:
        rows = datasets.load_dataset("parquet", data_files=parquet_files(place), split="all")
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
        raise InputError(f"`datasets` cannot load {place}: {error}") from error
    if lacking := sorted({*COLUMNS} - {*rows.column_names}):
        given = ", ".join(rows.column_names)
        raise InputError(f"{place} has no column {' and '.join(lacking)}, only {given}")
    if not isinstance(rows.features["image"], datasets.Image):
        raise InputError(f"the column image of {place} is not one of pictures")
    return rows.select_columns(list(COLUMNS)).cast_column("image", datasets.Image(decode=False))


def _digests(rows: Mapping[str, Sequence[Any]]) -> dict[str, list[str]]:
    pictures = [image["bytes"] or b"" for image in rows["image"]]
    endings = [".png" if data.startswith(PNG) else ".jpg" for data in pictures]
    digests = [hashlib.sha256(data).hexdigest()[:16] for data in pictures]
    return {"name": [digest + ending for digest, ending in zip(digests, endings, strict=True)]}
