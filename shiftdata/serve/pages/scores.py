"""What filters measured of each rendered sample, as pages ask for it: by key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shiftdata.data.dataset import OpenDataset
from shiftdata.data.metadata.columns import pass_columns, read_footer
from shiftdata.data.metadata.folds import hashes64

#: How the columns of `filters/<base>.parquet` begin that have scores.
SCORE = "score_"


@dataclass(frozen=True, eq=False)
class Scores:
    """Numbers of samples: a row of `values` for each of the sorted `hashes` of their keys, a column a name.

    Millions of samples fit: a number takes 8 bytes, and no key is kept.
    """

    names: tuple[str, ...]
    hashes: NDArray[np.uint64]
    values: NDArray[np.float64]

    @classmethod
    def read(cls, dataset: OpenDataset, path: str) -> Scores:
        """Read the scores of a file; one that unpacks to far more than its size is an `IntegrityError`."""
        columns = _columns(read_footer(dataset, path, ["key"]).schema.to_arrow_schema())
        hashes, values = [np.empty(0, np.uint64)], [np.empty((0, len(columns)))]

        def add(batch: pa.RecordBatch) -> None:
            hashes.append(hashes64(batch["key"]))
            numbers = [batch[name].cast(pa.float64(), safe=False) for name in columns]
            values.append(np.column_stack([one.to_numpy(zero_copy_only=False) for one in numbers]))

        if columns:
            most = dataset.manifest.files[path].bytes  # no key takes less than a byte
            pass_columns(dataset, path, ["key", *columns], add, coded=["key"], most_rows=most)
        every = np.concatenate(hashes)
        order = np.argsort(every, kind="stable")
        names = tuple(name.removeprefix(SCORE) for name in columns)
        return cls(names, every[order], np.concatenate(values)[order])

    def of(self, keys: pa.Array) -> list[dict[str, float]]:
        """The scores of some samples by name, without those that are not finite numbers."""
        wanted = hashes64(keys)
        place = np.searchsorted(self.hashes, wanted)
        known = place < len(self.hashes)
        known[known] = self.hashes[place[known]] == wanted[known]
        return [self._named(at) if is_known else {} for at, is_known in zip(place, known, strict=True)]

    def _named(self, at: Any) -> dict[str, float]:
        row = self.values[at]
        return {
            name: float(row[number]) for number, name in enumerate(self.names) if np.isfinite(row[number])
        }


def _columns(schema: pa.Schema) -> list[str]:
    return [
        field.name
        for field in schema
        if field.name.startswith(SCORE)
        and (pa.types.is_floating(field.type) or pa.types.is_integer(field.type))
    ]
