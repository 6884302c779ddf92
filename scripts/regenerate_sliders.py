"""Rebuild the sliders that ship: draw and encode style pictures, measure the calibration.

    python scripts/regenerate_sliders.py                # everything; about two minutes on one core
    python scripts/regenerate_sliders.py --check        # into a temporary folder, compared with what ships

The calibration: along each slider, at eleven strengths, the mean absolute difference of pixels to the
untouched picture, over emoji of every class and all style pictures. A scale gets the strength at which this
distance is that share of the distance at strength 1 which the scale is of the largest scale.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from style_pictures import description, draw_style
from tqdm import tqdm

from builders.albums.emoji import EmojiAlbum
from builders.shifts.steps import OnGround
from builders.shifts.styles import network, sliders
from builders.shifts.styles.bank import read_bank
from builders.shifts.styles.network import CODE_LENGTH
from builders.shifts.styles.sliders import CALIBRATION, CODES, SCALES, SLIDERS, Subject, slide
from builders.shifts.stylizers import Arbitrary
from shiftdata.stable import hash64

STYLE_PICTURES = 8
SUBJECTS_PER_CLASS = 2
STRENGTHS = np.linspace(0, 1, 11)
SIDE = 128
MOVED = 0.01  # of a strength: the table was measured on a few emoji that have left the album since (0.007)
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


def load_subjects() -> list[Subject]:
    """A few emoji of every class, drawn by stable hash."""
    ground = OnGround(size=SIDE)
    album = EmojiAlbum(size=ground.inner)
    chosen = []
    for label in album.labels:
        items = [item for item in album.items() if item.label == label]
        chosen += sorted(items, key=lambda item: hash64("sliders", item.key))[:SUBJECTS_PER_CLASS]
    return [Subject.of(ground.compose(album.load(item))) for item in chosen]


def distances(subjects: list[Subject], name: str) -> NDArray[np.float64]:
    """The mean distance to the untouched picture at each strength, in [0, 1]."""
    total = np.zeros(len(STRENGTHS))
    for number, subject in enumerate(subjects):
        untouched = np.asarray(subject.image, dtype=np.float64)
        for step, strength in enumerate(STRENGTHS):
            index, key = number % STYLE_PICTURES, ("sliders", name, number)
            shifted = np.asarray(slide(subject, name, index, float(strength), key))
            total[step] += np.abs(shifted - untouched).mean() / 255
    return total / len(subjects)


def write_calibration(path: Path) -> None:
    """The strength and the distance that belong to each scale of each slider."""
    subjects = load_subjects()
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, delimiter="\t", lineterminator="\n")
        table.writerow(("shift", "scale", "strength", "distance"))
        for name in tqdm(SLIDERS, desc="measuring"):
            found = distances(subjects, name)
            for scale in SCALES[1:]:
                distance = found[-1] * scale / SCALES[-1]
                strength = np.interp(distance, found, STRENGTHS)
                table.writerow((name, f"{scale:g}", f"{strength:.3f}", f"{distance:.3f}"))


def check() -> int:
    """Make everything again; 0 if codes and calibration are within their tolerances."""
    with tempfile.TemporaryDirectory() as folder:
        codes, calibration = Path(folder) / CODES.name, Path(folder) / CALIBRATION.name
        write_codes(codes)
        write_calibration(calibration)
        made, ships = read_bank(codes, Arbitrary()).codes, sliders.style_codes().codes
        worst = max(np.abs(made[name] - ships[name]).max() for name in ships)
        equal = codes.read_bytes() == CODES.read_bytes()
        again, shipped = _strengths(calibration), _strengths(CALIBRATION)
        moved = max(abs(again[row] - shipped[row]) for row in shipped | again)
    print(f"{CODES.name}: {'equal bytes' if equal else f'largest difference {worst:.2e}'}")
    same = moved <= MOVED
    print(f"{CALIBRATION.name}: {'equal' if same else 'different'}, strengths move by {moved:.3f} at most")
    return int(worst > TOLERANCE or not same)


def _strengths(path: Path) -> dict[tuple[str, str], float]:
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    return {(row["shift"], row["scale"]): float(row["strength"]) for row in rows}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare with what ships")
    options = parser.parse_args()
    if options.check:
        return check()
    write_codes(CODES)
    sliders.style_codes.cache_clear()
    write_calibration(CALIBRATION)
    print(f"{CODES.name}: {len(SLIDERS)} shifts x {STYLE_PICTURES} style pictures")
    return 0


if __name__ == "__main__":
    sys.exit(main())
