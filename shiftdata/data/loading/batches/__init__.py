"""Examples of a task for training: one by one, or in batches that threads decode ahead.

`decode` makes pixels of encoded pictures, `examples` is the map-style dataset, `loader` makes the batches of
a sampler's order and resumes.
"""

from __future__ import annotations

from shiftdata.data.loading.batches.examples import Example, Examples
from shiftdata.data.loading.batches.lines import Lines
from shiftdata.data.loading.batches.loader import Batch, Loader

__all__ = ["Batch", "Example", "Examples", "Lines", "Loader"]
