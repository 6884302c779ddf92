"""What a protocol sees of a dataset: its rows without pixels, from our files or from a table of one's own.

`metadata` holds the rows, `own` makes them from any table, `folds` gives folds and quantiles by stable hash,
`filters` applies and joins filters.
"""

from __future__ import annotations

from shiftdata.metadata.rows import Metadata

__all__ = ["Metadata"]
