"""Small files that would unpack to gigabytes, and the memory that a process takes to read them."""

from __future__ import annotations

import subprocess
import sys
import zlib
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

#: Bytes of addresses that a measured process gets, so that a failure does not take the machine with it.
MOST_ADDRESSES = 6 << 30
GROUP = 1_000_000


def write_equal_rows(
    path: Path, row: Mapping[str, str | float], rows: int, metadata: Mapping[bytes, bytes] | None = None
) -> Path:
    """Write a table of equal rows, of which each value stands in the file once a row group."""
    group = pa.table({name: _repeated(value, GROUP) for name, value in row.items()}, metadata=metadata)
    path.parent.mkdir(exist_ok=True, parents=True)
    with pq.ParquetWriter(path, group.schema) as writer:
        for first in range(0, rows, GROUP):
            writer.write_table(group.slice(0, min(GROUP, rows - first)))
    return path


def _repeated(value: str | float, count: int) -> pa.Array:
    if isinstance(value, str):
        return pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), count), pa.array([value]))
    return pa.repeat(value, count)


def with_small_footer(file: bytes) -> bytes:
    """A Parquet file whose footer says that each page of its first column has a byte."""
    size = int.from_bytes(file[-8:-4], "little")
    footer = file[-8 - size : -8]
    groups = pq.read_metadata(pa.BufferReader(file))
    for group in range(groups.num_row_groups):
        stated = _number(groups.row_group(group).column(0).total_uncompressed_size)
        assert stated in footer
        footer = footer.replace(stated, _number(1, len(stated)))
    return file[: -8 - size] + footer + file[-8:]


def _number(value: int, length: int = 0) -> bytes:
    """A whole number as Thrift's compact protocol has it, in some bytes at least."""
    value, digits = 2 * value, bytearray()
    while value > 127 or len(digits) + 1 < length:
        digits.append(value & 127 | 128)
        value >>= 7
    return bytes([*digits, value])


def growth(before: str, code: str, *arguments: object) -> tuple[int, str]:
    """Run `code` after `before`; give the bytes by which the peak of the memory grows, and the output."""
    program = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, ({MOST_ADDRESSES}, {MOST_ADDRESSES}))
{before}
start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
{code}
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - start)
"""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    printed, _, kilobytes = done.stdout.rstrip().rpartition("\n")
    return int(kilobytes) * 1024, printed


def png(width: int, height: int, *chunks: tuple[bytes, bytes], bits: int = 8) -> bytes:
    """A grey PNG by its parts; without chunks of its own it has no pixels."""
    head = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes([bits, 0, 0, 0, 0])
    parts = [(b"IHDR", head), *chunks, (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")
        for kind, data in parts
    )


def black_png(width: int, height: int) -> bytes:
    """A picture of one colour, without its pixels ever being in memory."""
    packed = zlib.compressobj(9)
    lines = b"".join(packed.compress(bytes(1 + (width + 7) // 8)) for _ in range(height)) + packed.flush()
    return png(width, height, (b"IDAT", lines), bits=1)
