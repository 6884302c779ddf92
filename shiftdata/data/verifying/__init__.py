"""Check a dataset, in a folder or at a URL, against its manifest: files by hash, rows and images by meaning.

`audit` goes over the whole. `files` gives each file on this machine, compared with its hash; `manifest`,
`rows`, `order`, `shards`, `splits` and `tars` say what the contents must be, and `tables` reads Parquet.
"""

from __future__ import annotations

from shiftdata.data.verifying.audit import verify
from shiftdata.data.verifying.problem import Problem, shortened

__all__ = ["Problem", "shortened", "verify"]
