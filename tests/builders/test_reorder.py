from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from builders.make import reorder
from builders.spool import Spool
from shiftdata.errors import IntegrityError

BLOCKS = 7
ROWS = 9


def spooled(folder: Path) -> tuple[Spool, list[str], list[bytes]]:
    """Blocks of rows with examples of all lengths."""
    spool, draw = Spool(folder / "spool"), np.random.default_rng(0)
    examples = [draw.bytes(int(size)) for size in draw.integers(0, 300, BLOCKS * ROWS)]
    names = [f"block-{number:02x}" for number in range(BLOCKS)]
    for block, name in enumerate(names):
        rows = [
            {
                "params": f'{{"row": {row}}}' * (row % 3),
                "sha256": hashlib.sha256(examples[row]).digest(),
                "size": len(examples[row]),
                "example": examples[row],
            }
            for row in range(block * ROWS, (block + 1) * ROWS)
        ]
        spool.write(name, rows, {})
    return spool, names, examples


@pytest.mark.parametrize("run", [1, 2500, 1 << 20])
def test_rows_are_read_by_place_whatever_the_runs(tmp_path, monkeypatch, run):
    monkeypatch.setattr(reorder, "BYTES_OF_RUN", run)
    spool, names, examples = spooled(tmp_path)
    order = np.random.default_rng(1).permutation(len(examples))[:40]  # the others are left out
    places = np.full(len(examples), -1)
    places[order] = np.arange(len(order))
    with reorder.reordered(spool, names, [ROWS] * BLOCKS, places, tmp_path / "packing") as values:
        assert (len(values.runs) > 1) == (run < 1 << 20)
        for start, stop in [(0, 40), (0, 1), (7, 30), (39, 40)]:
            mine = order[start:stop].tolist()
            assert values.read("example", start, stop).to_pylist() == [examples[row] for row in mine]
            params = [(f'{{"row": {row}}}' * (row % 3)).encode() for row in mine]
            assert values.read("params", start, stop).to_pylist() == params
        assert not any((tmp_path / "packing").iterdir())  # a kill leaves nothing


@pytest.mark.parametrize("place", [0.01, 0.3, 0.6, 0.99])
def test_a_changed_byte_anywhere_is_an_error_that_names_its_block(tmp_path, place):
    spool, names, examples = spooled(tmp_path)
    file = Path(spool.path(names[2]))
    data = bytearray(file.read_bytes())
    data[int(len(data) * place)] ^= 1
    file.write_bytes(data)
    with (
        pytest.raises(IntegrityError, match=r"block-02\.arrow is damaged .*: delete it"),
        reorder.reordered(spool, names, [ROWS] * BLOCKS, np.arange(len(examples)), tmp_path / "packing"),
    ):
        pass


def test_a_block_that_another_build_has_replaced_is_an_error(tmp_path):
    spool, names, examples = spooled(tmp_path)
    counts = [ROWS] * (BLOCKS - 1) + [ROWS + 1]
    places = np.arange(len(examples) + 1)
    with (
        pytest.raises(IntegrityError, match=rf"{names[-1]}\.arrow has changed meanwhile"),
        reorder.reordered(spool, names, counts, places, tmp_path / "packing"),
    ):
        pass
