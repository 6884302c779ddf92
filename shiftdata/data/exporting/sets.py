"""Named sets of rows to export: which rows, how often, and for what. Protocols make them elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shiftdata.data.metadata import Metadata

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class NamedRows:
    """Rows of a base by their positions in its metadata; the first of `roles` is the set's own.

    `counts` says how often each row was drawn. `hidden` are keys to show instead of the rows' own: then
    nothing else that tells the label is shown either.
    """

    rows: Indices
    roles: Sequence[str]
    counts: Indices | None = None
    hidden: pa.Array | None = None

    @property
    def times(self) -> Indices:
        """The count of each row."""
        return np.ones(len(self.rows), np.int64) if self.counts is None else self.counts


@dataclass(frozen=True)
class NamedSets:
    """Sets of rows of one base; `protocol` and `summary` describe them on cards, `identity` hashes them."""

    metadata: Metadata
    sets: Mapping[str, NamedRows]
    protocol: str
    summary: str
    identity: str = ""
