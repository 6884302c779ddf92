"""Examples by their positions: only the bytes of the rows that are needed, from here or from afar."""

from shiftdata.data.loading.byte_ranges.reader import ExampleReader as ExampleReader
from shiftdata.data.loading.byte_ranges.windows import read_ahead as read_ahead
