"""Where the members of each sample lie, from the indices of a split's tars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shiftdata.data.dataset import OpenDataset
from shiftdata.data.format.paths import data_files, index_file
from shiftdata.data.loading.byte_ranges.layout import member_bounds
from shiftdata.data.metadata.columns import read_columns

Numbers: TypeAlias = NDArray[np.int64]
#: A sample as the `webdataset` library has it: members by their extensions, `__key__` and `__url__`.
Sample: TypeAlias = dict[str, Any]

#: Bytes of a tar that stay together when an epoch is mixed: of a place far away, one request.
STRETCH = 4 << 20


@dataclass(frozen=True)
class Index:
    """The samples of a split: the names of their members, and where these lie, counted from the first.

    `starts` and `lengths` have a column for each of `members`, -1 where a sample lacks it. `stretches` are
    numbers of the parts of tars in which samples lie, `ends` count the samples up to the end of each tar.
    """

    members: tuple[str, ...]
    names: pa.Array
    starts: Numbers
    lengths: Numbers
    stretches: Numbers
    urls: Sequence[str]
    ends: Numbers

    @classmethod
    def of(cls, dataset: OpenDataset, base: str, split: str) -> Index:
        manifest, members = dataset.manifest, tuple(dataset.manifest.sample)
        drawn = ["copy"] if manifest.base(base).task else []
        places = [f"{member}_{name}" for name in ("offset", "length") for member in members]
        tars = data_files(manifest.files, base, split)
        tables = [read_columns(dataset, index_file(tar), ["key", *drawn, *places]) for tar in tars]
        dataset.check_unchanged()  # else these places may be of another version
        table = pa.concat_tables(tables).combine_chunks()
        first, _ = member_bounds(table, members)
        offsets, lengths = (
            np.stack([pc.fill_null(table[f"{one}_{name}"], -1).to_numpy() for one in members], axis=1)
            for name in ("offset", "length")
        )
        ends = np.cumsum([len(one) for one in tables])
        tar = np.searchsorted(ends, np.arange(len(table)), side="right")
        stretch = np.stack([tar, first // STRETCH])
        changes = (np.diff(stretch) != 0).any(axis=0)
        return cls(
            members,
            sample_names(table),
            np.where(offsets < 0, -1, offsets - first[:, None]),
            lengths,
            np.cumsum([0, *changes]),
            [f"{dataset.address}/{path}" for path in tars],
            ends,
        )

    def __len__(self) -> int:
        return len(self.starts)

    def sample(self, number: int, data: bytes) -> Sample:
        """A sample from its bytes."""
        url = self.urls[int(np.searchsorted(self.ends, number, side="right"))]
        sample: Sample = {"__key__": self.names[number].as_py(), "__url__": url}
        places = zip(self.members, self.starts[number].tolist(), self.lengths[number].tolist(), strict=True)
        return sample | {name: data[start : start + length] for name, start, length in places if start >= 0}


def sample_names(table: pa.Table) -> pa.Array:
    """The name of each sample, from its row in an index: the key, of a row's second sample with `+2`.

    No key has a plus sign, and a name with a dot would end there.
    """
    keys = table["key"].cast(pa.large_string())
    if "copy" in table.column_names:
        plus = pa.scalar("+", pa.large_string())
        copies = pc.binary_join_element_wise(keys, table["copy"].cast(pa.large_string()), plus)
        keys = pc.if_else(pc.greater(table["copy"], 1), copies, keys)
    return keys.combine_chunks()
