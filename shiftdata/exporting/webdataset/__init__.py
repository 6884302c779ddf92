"""The WebDataset face of a dataset: the same examples as tars, for training that reads from front to back.

The way of an export: `exporting` (the whole) -> `source` (rows and examples of the Parquet face) -> `order`
(which sample follows which) -> `tars` (the bytes) -> `card`. `reading` gives the pipeline that reads them.
"""

from __future__ import annotations

from shiftdata.exporting.webdataset.writing import export
from shiftdata.loading.tars import webdataset

__all__ = ["export", "webdataset"]
