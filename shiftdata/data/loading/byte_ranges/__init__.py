"""Examples by their positions: only the bytes of the rows that are asked for, from here or from afar.

`reader` has `ExampleReader`, `windows` reads ahead in a known order, `layout` says which shard has which row
and where, `ranges` joins byte ranges, `cache` keeps images on disk, `row_groups` reads what cannot be
addressed by bytes.
"""

from __future__ import annotations

from shiftdata.data.loading.byte_ranges.reader import ExampleReader, ReadStats
from shiftdata.data.loading.byte_ranges.windows import read_ahead

__all__ = ["ExampleReader", "ReadStats", "read_ahead"]
