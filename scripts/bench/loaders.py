"""Shuffled training reads of 256 px JPEG: ours beside its peers, in one run on one machine.

    python scripts/bench/loaders.py [--pictures 8000] [--rounds 3] [--out build/bench/loaders]

The same 4,000 or so encoded pictures (the training set of a dataset that is built first) lie as files in
folders, as tar shards, as Parquet shards, and as our dataset. Each reader runs in a process of its own, as
its users run it (with Pillow) and once more with libjpeg-turbo, in batches of 64 (see `loader_peers.py`).
`first` is the first epoch: files out of the page cache, workers started. `warm` is the faster of two more and
the figure to compare: worker processes are kept, so that nobody is measured starting them. Readers take
turns; the best of all rounds counts, since others may use the machine. `limit` is what threads decode that
have the bytes in memory and throw the pixels away; `CPU` is pictures a second of processor time, which other
users of the machine disturb less. Needs webdataset, simplejpeg and scikit-learn; litdata runs with
`--litdata PYTHON`, the interpreter of an environment that has it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from loader_peers import LITDATA, OURS, READERS, prepare


def measure(out: Path, name: str, workers: int, turbo: bool, epochs: int) -> dict[str, float]:
    """Epochs of one reader, in this process: pictures a second, and memory with that of the workers."""
    loader = READERS[name](out, workers, turbo)
    for path in out.rglob("*"):
        if path.suffix in (".jpg", ".tar", ".parquet", ".arrow"):
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)
    rates, costs, memory = [], [], []
    for _ in range(epochs):
        started, spent = time.perf_counter(), processor_seconds()
        seen = sum(
            len(next(iter(batch.values())) if isinstance(batch, dict) else batch[0]) for batch in loader
        )
        rates.append(seen / (time.perf_counter() - started))
        costs.append(seen / (processor_seconds() - spent))
        memory.append(proportional_memory())
    return {
        "first": rates[0],
        "warm": max(rates[1:]),
        "CPU": max(costs[1:]),
        "MB": memory[1],
        "MB_last": memory[-1],
        "seen": seen,
    }


def proportional_memory() -> float:
    """MB of this process and its children, what they share counted once."""
    held = 0
    for process in processes():
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        held += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return held / 1e3


def processor_seconds() -> float:
    """Seconds that this process and its children have worked."""
    stats = [Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split() for process in processes()]
    return sum(int(stat[11]) + int(stat[12]) for stat in stats) / os.sysconf("SC_CLK_TCK")


def processes() -> list[str]:
    return ["self", *Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


def measured(
    out: Path, python: str, name: str, workers: int, turbo: bool, epochs: int = 3
) -> dict[str, float]:
    """The same in a process of its own."""
    one = ["--one", name, str(workers), str(int(turbo)), str(epochs)]
    done = subprocess.run([python, __file__, "--out", str(out), *one], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{name}: {done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    print(f"{name}, turbo {turbo}, {workers} workers: {found['warm']:,.0f}/s", file=sys.stderr)
    return found


def compare(out: Path, pythons: dict[str, str], rounds: int) -> list[dict[str, Any]]:
    """Every reader, decoder and number of workers: the best of the rounds, in which they take turns."""
    best: dict[tuple[str, bool, int], dict[str, float]] = {}
    for _, workers, turbo, name in itertools.product(range(rounds), (2, 1), (True, False), pythons):
        found = measured(out, pythons[name], name, workers, turbo)
        before = best.get((name, turbo, workers), found)
        better = {what: max(found[what], before[what]) for what in ("first", "warm", "CPU")}
        best[name, turbo, workers] = {**found, **better, "MB": min(found["MB"], before["MB"])}
    return [{"reader": n, "turbo": t, "workers": w, **found} for (n, t, w), found in best.items()]


def told(rows: list[dict[str, Any]]) -> str:
    """The table, and the ratios of the bars."""
    lines = [f"{'reader':<14}{'decoder':<9}{'workers':>7}{'first/s':>9}{'warm/s':>9}{'CPU/s':>9}{'MB':>7}"]
    for row in rows:
        decoder = "turbo" if row["turbo"] else "Pillow"
        figures = f"{row['first']:>9,.0f}{row['warm']:>9,.0f}{row['CPU']:>9,.0f}{row['MB']:>7,.0f}"
        lines.append(f"{row['reader']:<14}{decoder:<9}{row['workers']:>7}{figures}")
    for workers, what in itertools.product((2, 1), ("warm", "CPU")):
        rate = {(row["reader"], row["turbo"]): row[what] for row in rows if row["workers"] == workers}
        ours, ours_by_pillow = rate.pop((OURS, True)), rate.pop((OURS, False))
        limit = rate.pop(("limit", True))
        del rate["limit", False]
        as_run, alike = (max(rate[one] for one in rate if one[1] == turbo) for turbo in (False, True))
        lines.append(
            f"{workers} workers, {what}: {ours / as_run:.2f} x the best peer as its users run it "
            f"({ours_by_pillow / as_run:.2f} without libjpeg-turbo), {ours / alike:.2f} x with the same "
            f"decoder, {ours / limit:.2f} of the limit"
        )
    return "\n".join(lines)


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Bars: pictures a second with two workers, as run and with the same decoder."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 3.8), layout="constrained")
    names = list(dict.fromkeys(row["reader"] for row in rows))[::-1]
    for shift, turbo, label, colour in (
        (0.2, True, "libjpeg-turbo", "#2b6ca3"),
        (-0.2, False, "Pillow", "#b9c4cd"),
    ):
        rate = {row["reader"]: row["warm"] for row in rows if row["turbo"] == turbo and row["workers"] == 2}
        places = np.arange(len(names)) + shift
        bars = axes.barh(places, [rate[name] for name in names], 0.38, label=label, color=colour)
        axes.bar_label(bars, fmt="{:,.0f}", padding=3, fontsize=8)
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel("pictures a second: 256 px JPEG, shuffled, 2 workers, after the first epoch")
    axes.margins(x=0.12)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(*axes.get_legend_handles_labels(), frameon=False, loc="outside upper right", ncols=2)
    figure.savefig(path, dpi=120)


def main() -> None:
    """Build what is missing, measure, print the table, write JSON and picture."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--pictures", type=int, default=8000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("build/bench/loaders"))
    parser.add_argument("--litdata", metavar="PYTHON", help="an interpreter that has litdata")
    parser.add_argument("--one", nargs=4, metavar=("READER", "WORKERS", "TURBO", "EPOCHS"))
    options = parser.parse_args()
    if options.one:
        name, workers, turbo, epochs = options.one
        print(json.dumps(measure(options.out, name, int(workers), turbo == "1", int(epochs))))
        return
    if not (options.out / "ready").exists():
        prepare(options.out, options.pictures)
    pythons = dict.fromkeys(READERS, sys.executable) | {LITDATA: options.litdata}
    rows = compare(options.out, {name: python for name, python in pythons.items() if python}, options.rounds)
    long = measured(options.out, sys.executable, OURS, 2, True, epochs=10)
    print(told(rows))
    print(f"ours after 2 and after 10 epochs: {long['MB']:.0f} and {long['MB_last']:.0f} MB")
    (options.out / "loaders.json").write_text(json.dumps(rows, indent=1) + "\n")
    draw(rows, options.out / "loaders.png")


if __name__ == "__main__":
    main()
