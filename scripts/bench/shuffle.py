"""How mixed a plain shuffle is: distinct labels in batches of 64 from plain `datasets`, against i.i.d. draws.

    python scripts/bench/shuffle.py [build/shift/sma_emoji]

The expectation for i.i.d. draws is computed from the label counts. Rows are streamed with
`shuffle(buffer_size=1000)`, the default of the field, over each base's train split.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

import datasets

from shiftdata.data.format.manifest import Manifest

BATCH = 64


def main() -> None:
    """Print one line a base."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("dataset", nargs="?", type=Path, default=Path("build/shift/sma_emoji"))
    folder = parser.parse_args().dataset
    datasets.config.SLEEP_TIME_ON_THREADS_SHUTDOWN = 0
    for base in Manifest.read(folder).bases:
        stream = datasets.load_dataset(str(folder), base.name, split="train", streaming=True)
        labels = [row["label"] for row in stream.select_columns("label").shuffle(seed=0, buffer_size=1000)]
        batches = [labels[at : at + BATCH] for at in range(0, len(labels) - BATCH + 1, BATCH)]
        found = sum(len(set(batch)) for batch in batches) / len(batches)
        shares = [count / len(labels) for count in Counter(labels).values()]
        expected = sum(1 - (1 - share) ** BATCH for share in shares)
        ratio = found / expected
        print(f"{base.name:<10}{found:6.2f} distinct labels a batch, i.i.d. {expected:.2f}: {ratio:.3f}")


if __name__ == "__main__":
    main()
