"""Check a dataset, in a folder or at a URL, against its manifest: files by hash, rows and images by meaning.

The way of a check: `audit` (the whole) -> `base` (one base) -> `repo` (a file on this machine, and its hash)
-> `metadata` and `tables` (rows, as far as they can be read) -> `shards`, `align`, `examples` (data files
beside their metadata) -> `rows`, `order`, `splits` (what rows must be).
"""

from __future__ import annotations

from shiftdata.verifying.audit import RENDERINGS, verify
from shiftdata.verifying.problem import Problem, shortened

__all__ = ["RENDERINGS", "Problem", "shortened", "verify"]
