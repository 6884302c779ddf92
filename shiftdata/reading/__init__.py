"""Examples by their row: only the bytes that are asked for, from a folder or from afar.

An encoded image lies verbatim in its Parquet shard, and the metadata say where: it is read by byte range,
ranges near each other in one request, several requests at a time. Texts, tables, and shards that are not the
ones the manifest knows are read by row group.
"""

from shiftdata.reading.cache import DiskCache
from shiftdata.reading.reader import ExampleReader, ReadStats

__all__ = ["DiskCache", "ExampleReader", "ReadStats"]
