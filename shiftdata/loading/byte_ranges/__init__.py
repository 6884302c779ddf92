"""Examples by their positions: only the bytes of the rows that are asked for, from here or from afar.

`reader` is the door, `layout` knows which shard holds which row and where, `stores` fetches byte ranges,
`ranges` joins them, `cache` keeps images on disk, `row_groups` reads what cannot be addressed by bytes.
"""

from __future__ import annotations

from shiftdata.loading.byte_ranges.reader import ExampleReader
from shiftdata.loading.byte_ranges.stats import ReadStats

__all__ = ["ExampleReader", "ReadStats"]
