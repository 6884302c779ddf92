"""Rebuild the codes of the sliders that ship: draw and encode their style pictures.

    python scripts/regenerate_sliders.py
    python scripts/regenerate_sliders.py --check        # into a temporary folder, compared with what ships

The strength of each scale (`sliders.tsv`) is part of the definition and stays: it was measured once, over 40
emoji of 128 pixels, such that a scale's mean distance in pixels to the untouched picture is its share of the
largest scale's. tests/builders/test_sliders.py holds it to that on letters.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from style_pictures import description, draw_style
from tqdm import tqdm

from builders.shifts.styles import network, sliders
from builders.shifts.styles.bank import read_bank
from builders.shifts.styles.network import CODE_LENGTH
from builders.shifts.styles.sliders import CODES, SLIDERS
from builders.shifts.stylizers import Arbitrary

STYLE_PICTURES = 8
TOLERANCE = 1e-3  # of a code, between processor families; on the same machine bytes are equal


def write_codes(path: Path) -> None:
    """The codes of all style pictures, in the form of the style bank."""
    names = sorted(SLIDERS)
    rows = [(name, index) for name in names for index in range(STYLE_PICTURES)]
    found = [network.code(draw_style(*row, "sliders")) for row in tqdm(rows, desc="drawing and encoding")]
    columns = {
        "style": pa.array([name for name, _ in rows]),
        "index": pa.array([index for _, index in rows], pa.int32()),
        "code": pa.FixedSizeListArray.from_arrays(pa.array(np.concatenate(found)), CODE_LENGTH),
        "generator": pa.array([description(name, "sliders") for name, _ in rows]),
        "license": pa.array(["CC0-1.0"] * len(rows)),
        "seed": pa.array([f"sliders/{name}/{index}" for name, index in rows]),
    }
    table = pa.table(columns).replace_schema_metadata({"network": network.fingerprint()})
    pq.write_table(table, path, compression="zstd", use_dictionary=["style", "generator", "license"])


def check() -> int:
    """Draw and encode again; 0 if the codes are within their tolerance."""
    with tempfile.TemporaryDirectory() as folder:
        codes = Path(folder) / CODES.name
        write_codes(codes)
        made, ships = read_bank(codes, Arbitrary()).codes, sliders.style_codes().codes
        worst = max(np.abs(made[name] - ships[name]).max() for name in ships)
        equal = codes.read_bytes() == CODES.read_bytes()
    print(f"{CODES.name}: {'equal bytes' if equal else f'largest difference {worst:.2e}'}")
    return int(worst > TOLERANCE)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare with what ships")
    options = parser.parse_args()
    if options.check:
        return check()
    write_codes(CODES)
    print(f"{CODES.name}: {len(SLIDERS)} shifts x {STYLE_PICTURES} style pictures")
    return 0


if __name__ == "__main__":
    sys.exit(main())
