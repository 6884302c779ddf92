"""The examples of a set one by one: what torch calls a map-style dataset."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shiftdata.errors import InputError, IntegrityError
from shiftdata.loading.batches.decode import decode
from shiftdata.loading.byte_ranges import ExampleReader
from shiftdata.metadata import Metadata

#: x, the label's number, and what else is known.
Example: TypeAlias = tuple[Any, int, dict[str, Any]]


class Examples:
    """The examples of some rows of the metadata: `(x, y, metadata)` each, read when they are asked for.

    x is a uint8 array of height x width x 3 (or the text, or the list of features), or what `transform` makes
    of it; the encoded bytes with `decode=False`. y is the label's number, `metadata` has group, nuisance, key
    and position: the row in `task.table(...)`. torch's DataLoader takes it as it is, with workers too.
    `reader` is one with options of its own.
    """

    def __init__(
        self,
        metadata: Metadata,
        indices: NDArray[np.int64],
        counts: NDArray[np.int64] | None = None,
        *,
        reader: ExampleReader | None = None,
        transform: Callable[[Any], Any] | None = None,
        decode: bool = True,
    ) -> None:
        dataset = metadata.dataset
        if dataset is None:
            raise InputError(
                f"{metadata.name} is a table of your own, without examples to read: make the task from a "
                "dataset, by its name, folder or URL"
            )
        self.reader = reader or ExampleReader(dataset, metadata.base)
        if (self.reader.dataset.sha256, self.reader.base) != (dataset.sha256, metadata.base):
            raise InputError(
                f"the reader is of {self.reader.dataset!r}, base {self.reader.base}, and the task of "
                f"{dataset!r}, base {metadata.base}: make the reader from `task.metadata.dataset`"
            )
        times = np.ones(len(indices), np.int64) if counts is None else counts
        self.name = metadata.name
        self.positions = np.repeat(np.arange(len(indices)), times)
        self.rows = indices[self.positions]
        self.labels = metadata.label[self.rows].astype(np.int64)
        self.groups = metadata.group[self.rows].astype(np.int64)
        self.nuisances = metadata.nuisance[self.rows].astype(np.int64)
        self.modality = dataset.manifest.roles.modality
        self._keys = metadata.table["key"].take(pa.array(self.rows)).combine_chunks()
        self._transform = transform
        self._decode = decode

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> Example:
        return self.__getitems__([number])[0]

    def __getitems__(self, numbers: Sequence[int]) -> list[Example]:
        data = self.reader.read(self.rows[numbers].tolist())
        return [self._example(number, one) for number, one in zip(numbers, data, strict=True)]

    def key(self, number: int) -> str:
        key: str = self._keys[number].as_py()
        return key

    def named(self, number: int, error: Exception) -> IntegrityError:
        """What is wrong with an example, by its name."""
        return IntegrityError(
            f"{self.key(number)}, row {self.rows[number]:,} of {self.name}: {error}. `shiftdata verify` "
            'checks every file; fetch or build the dataset again, or take a loader with on_error="skip"'
        )

    def _example(self, number: int, data: bytes) -> Example:
        try:
            x = self._decoded(data) if self._decode else data
        except IntegrityError as error:
            raise self.named(number, error) from error
        known = {
            "group": int(self.groups[number]),
            "nuisance": int(self.nuisances[number]),
            "key": self.key(number),
            "position": int(self.positions[number]),
        }
        return x if self._transform is None else self._transform(x), int(self.labels[number]), known

    def _decoded(self, data: bytes) -> Any:
        if self.modality == "image":
            return decode(data)
        return data.decode() if self.modality == "text" else json.loads(data)
