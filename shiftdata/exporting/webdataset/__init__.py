"""A dataset in WebDataset format: the same examples as tars, for training that reads from front to back.

An export: `writing` (the whole) -> `source` (rows and examples of the Parquet dataset) -> `order` (which
sample follows which) -> `tars` (the bytes) -> `card`. `loading.tars` gives the pipeline that reads them.
"""

from __future__ import annotations

from shiftdata.exporting.webdataset.writing import export
from shiftdata.loading.tars import webdataset

__all__ = ["export", "webdataset"]
