"""Examples of a task for training: one by one, or in batches that threads decode ahead."""

from shiftdata.data.loading.batches.assembly import Batch as Batch
from shiftdata.data.loading.batches.examples import Example as Example
from shiftdata.data.loading.batches.examples import Examples as Examples
from shiftdata.data.loading.batches.examples import Lines as Lines
from shiftdata.data.loading.batches.loader import Loader as Loader
