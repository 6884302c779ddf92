"""Examples whose x lies in an array already: features in a memory-mapped file, numbers or pixels."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shiftdata.data.loading.batches.examples import Examples, Job, Numbers, Transform
from shiftdata.errors import InputError
from shiftdata.stable import content_hash, hash64


class Lines(Examples):
    """The lines `rows` of an array, which has a line for each row of the base.

    `known` are columns with an entry for each of the rows, `labels` their labels. Pixels are uint8, lines x
    height x width x 3. What the array holds is not part of a loader's identity.
    """

    def __init__(
        self,
        array: NDArray[Any],
        rows: Numbers,
        *,
        labels: Numbers | None = None,
        keys: pa.Array | None = None,
        known: Mapping[str, Numbers] | None = None,
        names: Mapping[str, Sequence[str]] | None = None,
        transform: Transform | None = None,
        seed: int = 0,
    ) -> None:
        if len(rows) and not 0 <= rows.min() <= rows.max() < len(array):
            raise InputError(f"rows {rows.min()} to {rows.max()} of an array of {len(array):,} lines")
        self.array, self._rows, self.labels, self._keys = array, rows, labels, keys
        self.known = {"position": np.arange(len(rows)), **(known or {})}
        self.names, self.features = dict(names or {}), {}
        self.name, self.modality = "an array", "image" if array.ndim == 4 else "table"
        self.transform, self.seed, self.size = transform, seed, None
        self._epoch, self._times, self._decode = None, np.zeros(len(rows), np.int32), True

    def identity(self) -> int:
        shape, kind = str(self.array.shape[1:]), str(self.array.dtype)
        return hash64("lines", self.seed, self.name, shape, kind, content_hash(self._rows.tobytes()))

    def keys(self, numbers: Sequence[int]) -> list[str]:
        if self._keys is None and "key" not in self.known:
            return [str(row) for row in self._rows[numbers]]
        return super().keys(numbers)

    def block(self, numbers: Sequence[int]) -> NDArray[Any]:
        """Return the x of several examples as one array."""
        return np.take(self.array, self._rows[numbers], axis=0)

    def read(self, numbers: Sequence[int]) -> list[Any]:
        return list(self.block(numbers))

    def read_ahead(self, jobs: Iterable[Job]) -> Generator[tuple[Job, Any]]:
        return ((job, partial(self.read, job[0])) for job in jobs)

    def decoded(self, number: int, data: Any, out: Any = None) -> Any:
        return data

    def check_unchanged(self) -> None:
        """Do nothing: the array is the caller's."""

    def close(self) -> None:
        """Do nothing: no file is open."""
