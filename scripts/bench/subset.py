"""What a subset costs over HTTP: bytes fetched in all against bytes of the pictures that are needed.

    python scripts/bench/subset.py [DATASET] [--base BASE] [--k 8] [--mu 0.05]

A server on this machine counts what it sends: the manifest, the metadata, the pictures of the training set of
group-fairness (k, mu), read in shuffled batches of 64. Give a dataset that is built (default: nico_emoji).
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

import shiftdata as sd
from shiftdata.manifest import Manifest
from shiftdata.reading import ExampleReader

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.reading.served import serving  # the server of the tests, which counts

BATCH = 64


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("dataset", nargs="?", type=Path, default=Path("build/shift/nico_emoji"))
    parser.add_argument("--base")
    parser.add_argument("--k", type=int, default=8)
    parser.add_argument("--mu", type=float, default=0.05)
    options = parser.parse_args()
    manifest = Manifest.read(options.dataset)
    base = options.base or manifest.default_base
    images = sum(split.rows for split in manifest.base(base).splits.values())
    with serving(options.dataset.parent) as server:
        url = f"{server.url}/{options.dataset.name}"
        began = time.monotonic()
        task = sd.task(url, "group-fairness", k=options.k, mu=options.mu, base=base, on_empty="report")
        rows = task.sets["train"].indices
        order = np.random.default_rng(0).permutation(rows).tolist()
        task_bytes, task_time = server.sent, time.monotonic() - began
        with ExampleReader(url, base) as reader:
            needed = sum(map(len, reader.read(order[:BATCH])))
            first = time.monotonic() - began
            for start in range(BATCH, len(order), BATCH):
                needed += sum(map(len, reader.read(order[start : start + BATCH])))
            stats = reader.stats
        total = time.monotonic() - began
        fetched = server.sent
    print(f"{manifest.name}/{base}: {images:,} images, {len(rows):,} needed, {needed:,} bytes")
    print(f"fetched {fetched:,} bytes in all, {fetched / needed:.3f} times what is needed")
    print(
        f"  manifest and metadata of the task {task_bytes:,}, pictures {stats.fetched:,}, the rest pointers"
    )
    print(f"the task after {task_time:.2f} s, the first batch after {first:.2f} s, all after {total:.2f} s")


if __name__ == "__main__":
    main()
