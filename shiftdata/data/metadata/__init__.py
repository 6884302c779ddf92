"""The rows of a dataset without its examples, from our files or from a table of your own.

`rows` has `Metadata`, `own_table` makes it from any table, `folds` computes folds and quantiles by stable
hash, `columns` reads only the columns that are needed.
"""

from __future__ import annotations

from shiftdata.data.metadata.own_table import metadata_from_table
from shiftdata.data.metadata.rows import Metadata, read_metadata

__all__ = ["Metadata", "metadata_from_table", "read_metadata"]
