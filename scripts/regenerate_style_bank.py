"""Draw and encode the pictures of the style bank in builders/shifts/styles/assets again, from their seeds.

    python scripts/regenerate_style_bank.py          # write bank.parquet
    python scripts/regenerate_style_bank.py --check  # compare the codes with those that ship

The drawings are in `style_pictures/`. A style of the bank is named after what a picture painted in it looks
like (`NAMES`), which is seldom what was drawn. `scripts/calibrate_styles.py` measures how well the styles are
recognised in a dataset, and in which strength.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from style_pictures import DRAWINGS, NAMES, description, draw_style
from tqdm import tqdm

from builders.shifts.styles import network
from builders.shifts.styles.bank import BANK, StyleBank
from builders.shifts.styles.network import CODE_LENGTH

PICTURES = 40  # of each style
TOLERANCE = 1e-3  # between processor families; codes are of size 1, and equal on the same machine


def encode(drawings: list[str]) -> dict[str, NDArray[np.float32]]:
    """Return the codes of all pictures of each drawing."""
    return {
        drawing: np.stack([network.code(draw_style(drawing, index)) for index in range(PICTURES)])
        for drawing in tqdm(drawings, desc="drawing and encoding", unit="style")
    }


def write_bank() -> None:
    """Write the shipped file; its metadata names the network that the codes belong to."""
    drawings = sorted(NAMES, key=NAMES.__getitem__)
    codes = encode(drawings)
    rows = [(drawing, index) for drawing in drawings for index in range(PICTURES)]
    flat = pa.array(np.concatenate([codes[drawing] for drawing in drawings]).ravel())
    columns = {
        "style": pa.array([NAMES[drawing] for drawing, _ in rows]),
        "index": pa.array([index for _, index in rows], pa.int32()),
        "code": pa.FixedSizeListArray.from_arrays(flat, CODE_LENGTH),
        "generator": pa.array([description(drawing) for drawing, _ in rows]),
        "license": pa.array(["CC0-1.0"] * len(rows)),
        "seed": pa.array([f"style-bank/{drawing}/{index}" for drawing, index in rows]),
    }
    table = pa.table(columns).replace_schema_metadata({"network": network.fingerprint()})
    pq.write_table(table, BANK, compression="zstd", use_dictionary=["style", "generator", "license"])
    print(f"{BANK.name}: {len(drawings)} styles, {BANK.stat().st_size:,} bytes")


def check() -> int:
    """Encode the shipped styles again; return 0 if every code is within the tolerance of the shipped one."""
    bank = StyleBank.load()
    codes = encode([DRAWINGS[style] for style in bank.names])
    worst = np.array([np.abs(codes[DRAWINGS[style]] - bank.codes[style]).max() for style in bank.names])
    print(f"largest difference: {worst.max():.2e} in {bank.names[worst.argmax()]}; allowed: {TOLERANCE:.0e}")
    return int(worst.max() > TOLERANCE)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare codes with what ships")
    sys.exit(check() if parser.parse_args().check else write_bank())
