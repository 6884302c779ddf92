"""The style bank: 20 styles of generative art with 40 style pictures each, as codes of the style network.

No picture ships: `scripts/regenerate_style_bank.py` draws and encodes them again from their seeds. Which
candidates became the 20 styles, with every number behind it, is in `assets/candidates.tsv`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from builders.shifts.styles.network import ASSETS, CODE_LENGTH
from shiftdata.errors import InputError, not_found
from shiftdata.stable import content_hash

BANK = ASSETS / "bank.parquet"


@dataclass(frozen=True, eq=False)
class StyleBank:
    """Codes of all style pictures by style name and index; the file also says how each was drawn."""

    names: tuple[str, ...]
    codes: NDArray[np.float32]  # style x index x 100

    @staticmethod
    @cache
    def load() -> StyleBank:
        return read_bank(BANK)

    @property
    def size(self) -> int:
        return int(self.codes.shape[1])

    def code(self, style: str, index: int) -> NDArray[np.float32]:
        if style not in self.names:
            raise not_found("style", style, self.names)
        if not 0 <= index < self.size:
            raise InputError(f"style {style!r} has style pictures 0 to {self.size - 1}, got {index}")
        return np.array(self.codes[self.names.index(style), index])

    def fingerprint(self) -> str:
        """A hash of all names and codes, part of what determines a stylized dataset."""
        little_endian = np.ascontiguousarray(self.codes, dtype="<f4")
        return content_hash(*self.names, str(self.codes.shape), little_endian.tobytes())


def read_bank(path: Path) -> StyleBank:
    """Read a bank file: one row a style picture, sorted by style and index, as many rows for every style."""
    table = pq.read_table(path)
    rows = table.select(["style", "index"]).to_pylist()
    names = tuple(sorted({row["style"] for row in rows}))
    size = len(rows) // len(names)
    expected = [(name, index) for name in names for index in range(size)]
    if [(row["style"], row["index"]) for row in rows] != expected:
        raise InputError(f"{path.name}: rows are not {len(names)} styles x {size} style pictures in order")
    flat = table["code"].combine_chunks().flatten().to_numpy()
    codes = np.array(flat, dtype=np.float32).reshape(len(names), size, CODE_LENGTH)
    return StyleBank(names, codes)
