"""Pictures to a folder: `sd.export` against the loop that a user of plain `datasets` writes, side by side.

    python scripts/bench/export.py [DATASET [BASE]]

Both write the same bytes under the same names. The export also compares each picture with its hash and
writes `keys.csv`. The ratio is what counts: machines differ.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import datasets

import shiftdata as sd

ROUNDS = 5


def export(task: sd.Task, out: Path) -> None:
    sd.export(task, "imagefolder", out)


def streamed(task: sd.Task, out: Path) -> None:
    loaded = datasets.load_dataset(task.metadata.dataset.address, task.metadata.base, streaming=True)
    write(loaded, out)


def prepared(task: sd.Task, out: Path) -> None:
    """Rows from the cache, which the first round has made."""
    write(datasets.load_dataset(task.metadata.dataset.address, task.metadata.base), out)


def write(loaded: dict[str, datasets.Dataset], out: Path) -> None:
    for split, rows in loaded.items():
        names = rows.features["label"].names
        for name in names:
            (out / split / name).mkdir(parents=True)
        for row in rows.select_columns(["label", "image"]).cast_column("image", datasets.Image(decode=False)):
            path = out / split / names[row["label"]] / row["image"]["path"]
            path.write_bytes(row["image"]["bytes"])


class FilesAlone:
    """The same files from memory: what the file system takes."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def __call__(self, task: sd.Task, out: Path) -> None:
        for folder in {Path(name).parent for name in self.files}:
            (out / folder).mkdir(parents=True)
        for name, data in self.files.items():
            (out / name).write_bytes(data)


def pictures(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.glob("*/*/*")}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dataset", nargs="?", default="sma_emoji")
    parser.add_argument("base", nargs="?", default="mini")
    given = parser.parse_args()
    datasets.disable_progress_bars()
    task = sd.task(given.dataset, base=given.base)
    ways: dict[str, Callable[[sd.Task, Path], None]] = {
        "export": export,
        "datasets, streamed": streamed,
        "datasets, prepared": prepared,
        "the files alone": (alone := FilesAlone()),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(ROUNDS + 1):
            for name, way in ways.items():
                out = Path(scratch) / f"{name}-{number}"
                start = time.perf_counter()
                way(task, out)
                if number:  # the first round fills caches
                    seconds[name].append(time.perf_counter() - start)
                else:
                    found = pictures(out)
                    if alone.files and found != alone.files:
                        raise SystemExit(f"{name} does not write the same pictures")
                    alone.files = found
    rows = sum(len(rows) for rows in task.sets.values())
    for name, times in seconds.items():
        ratios = [one / mine for one, mine in zip(times, seconds["export"], strict=True)]
        print(
            f"{name:<20}{median(times):6.2f} s {rows / median(times):>8,.0f} pictures/s, "
            f"{median(ratios):.2f} times the export ({min(ratios):.2f}-{max(ratios):.2f})"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
