"""A dataset in WebDataset format: the same examples as tars, for training that reads from front to back.

`writing` is the whole export, `source` makes samples, their order and the tars' bytes, `card` the README.
`shiftdata.data.loading.tars` reads them.
"""

from __future__ import annotations

from shiftdata.data.exporting.webdataset.writing import export

__all__ = ["export"]
