"""Tasks, samplers, metrics and filters on a dataset's metadata files at several sizes: time and memory.

python scripts/bench/evaluation.py [--rows 300000 3000000 30000000] [--only flexible freeze]
    [--folder build/rows]

The folder has a manifest and metadata as a build writes them: 240 classes x 20 styles, stretches of 40 rows
of one group in a drawn order. Each line is measured in a process of its own, whose memory is watched from
outside: it is stopped above `--limit` GB.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shiftdata.data.format.manifest import FILE_NAME, Manifest
from shiftdata.data.format.paths import data_file, metadata_file
from shiftdata.data.format.records import Base, Credit, FileRecord, Split
from shiftdata.data.format.schema import SPLITS, Roles, metadata_schema
from shiftdata.data.format.writer import write_metadata

LABELS = [f"label{n:03d}" for n in range(240)]
STYLES = [f"style{n}" for n in range(20)]
STRETCH, AT_ONCE = 40, 25_000  # rows of a group side by side, and stretches that are written at once
SIZES = (300_000, 3_000_000, 30_000_000)
BASE = "full"

PROTOCOLS = {
    "canonical": "None",
    "group-fairness": "sd.protocol('group-fairness', k=20, mu=0.1)",
    "uda": "sd.protocol('uda', source='style0', target='style7')",
    "uda@paper": "sd.protocol('uda@paper', source='style0', target='style7')",
    "leave-one-domain-out": "sd.protocol('leave-one-domain-out', test='style3')",
    "the same, seed 3": "sd.protocol('leave-one-domain-out', test='style3', seed=3)",
    "and shares of it": "sd.protocol('domainbed-v2', test='style3', seed=3) & GroupFairness(k=10, mu=.1)",
    "domainbed": "sd.protocol('domainbed', test='style3')",
    "flexible-dg": "sd.protocol('flexible-dg')",
    "oracle": "sd.protocol('oracle', test=('style3', 'style4'))",
    "label-shift": "sd.protocol('label-shift', alpha=3, variant='code')",
    "label-shift of domains": "sd.protocol('label-shift', alpha=3, source='style0', target='style7')",
    "three composed": "'group-fairness k=20 mu=.1 label-shift@code alpha=9 severity<=1.5'",
}
#: What is measured of the canonical task: name, what is made before, what is timed.
STEPS = {
    "report": ("", "task.report()"),
    "filters": ("", "restrict(task, WHERE)"),
    "sampler rwg": ("", "task.sampler('rwg')"),
    "sampler subg": ("", "task.sampler('subg')"),
    "sampler suby": ("", "task.sampler('suby')"),
    "sampler per-domain": ("", "task.sampler('per-domain', batch_size=60)"),
    "epoch of shuffle": ("one = task.sampler('shuffle')", "one.rows_of(1)"),
    "epoch of rwg": ("one = task.sampler('rwg')", "one.rows_of(1)"),
    "group_accuracy": ("true = task.metadata.label; group = task.metadata.group",
                       "group_accuracy(true, true, group, n_groups=4800)"),
    "evaluate in order": (TRUTH := "true = task.metadata.label[task.rows('test')]", "task.evaluate(true)"),
    "evaluate by file": (f"{TRUTH}; keys = task.table('test')['key']; "
                         "pq.write_table(pa.table({'key': keys[::-1], 'prediction': true[::-1]}), scratch);"
                         "del keys, true", "task.evaluate(scratch)"),
    "evaluate by keys": (f"{TRUTH}; true = dict(zip(task.keys('test'), true.tolist()))",
                         "task.evaluate(true)"),
    "by style": (f"{TRUTH}; result = task.evaluate(true)", "result.by('style'), result.by('label', 'style')"),
    "page of 8 methods": (f"{TRUTH}; draw = np.random.default_rng(0); given = {{str(method): np.where("
                          "draw.random(len(true)) < 0.9, true, draw.integers(240, size=len(true))) "
                          "for method in range(8)}",
                          "predictions_page(task, given, Path(scratch).parent / 'page')"),
    "table of test": ("", "task.table('test')"),
    "keys of test": ("", "task.keys('test')"),
    "freeze": ("", "task.freeze(scratch)"),
    "task of a frozen file": ("task.freeze(scratch); task = None", "sd.task(folder, scratch)"),
}  # fmt: skip
CHILD = """
import sys, time, warnings
warnings.simplefilter("ignore")
from pathlib import Path
import numpy as np, pyarrow as pa, pyarrow.parquet as pq
import shiftdata as sd
from shiftdata.evaluation.metrics import group_accuracy
from shiftdata.evaluation.protocols import GroupFairness
from shiftdata.evaluation.tasks.making import restrict
from shiftdata.serve.pages.predictions_page import predictions_page
WHERE = [[("label", "in", [3, 5]), ("quantile", "<", 0.3)], [("style", "==", 4), ("fold", ">=", 20)]]
folder, before, timed, scratch = sys.argv[1:]
exec(before)
started = time.perf_counter(), time.process_time()
made = eval(timed)
print(time.perf_counter() - started[0], time.process_time() - started[1])
"""


@dataclass(frozen=True)
class Measured:
    """Seconds of one step, those of all processors, and the largest memory of its process in GB."""

    seconds: float
    busy: float
    peak: float
    failed: str = ""

    def growth(self, larger: Measured) -> tuple[float, float]:
        """Return how many times as much processor time and memory a larger dataset takes."""
        return larger.busy / self.busy, larger.peak / self.peak

    def __str__(self) -> str:
        times = self.failed or f"{self.seconds:.2f} {self.busy:6.2f}"
        return f"{times:>15} {self.peak:5.2f}"


def write(folder: Path, rows: int) -> None:
    """Write a dataset without its pictures, a million rows at a time."""
    roles, per_group = Roles(nuisance="style"), rows // (len(LABELS) * len(STYLES))
    files, bounds = {}, [*SPLITS.values(), 100]
    for (split, first), end in zip(SPLITS.items(), bounds[1:], strict=True):
        low, high = (-(-per_group * fold // 100) for fold in (first, end))
        schema = metadata_schema(roles, LABELS, STYLES)
        stretches = _stretches(low, high, per_group, split)
        path = metadata_file(BASE, split)
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        files[path] = write_metadata(
            folder / path, (pa.table(stretch, schema=schema) for stretch in stretches)
        )
    (folder / FILE_NAME).write_text(_manifest(roles, files).to_json())


def _stretches(low: int, high: int, per_group: int, split: str) -> Iterator[dict[str, pa.Array]]:
    rng = np.random.default_rng(low)
    starts = np.arange(low, high, STRETCH)
    order = rng.permutation(len(LABELS) * len(STYLES) * len(starts))
    # The origins of a label, in the order of their hashes; of each style, where its rows stand in the cell.
    place = rng.permuted(np.tile(np.arange(high - low), (len(LABELS), 1)), axis=1)
    for at in range(0, len(order), AT_ONCE):
        group, start = np.divmod(order[at : at + AT_ONCE], len(starts))
        number = starts[start][:, None] + np.arange(STRETCH)
        inside = (number < high).ravel()
        group, number = np.repeat(group, STRETCH)[inside], number.ravel()[inside]
        label, style = np.divmod(group, len(STYLES))
        name = _joined(LABELS, label, "-content-image-", number)
        key = pc.binary_join_element_wise(name, pa.array(STYLES).take(pa.array(style)), "-")
        n = len(number)
        one = {
            "key": key,
            "split": pa.array([split]).take(pa.array(np.zeros(n, np.int8))),
            "fold": (100 * number // per_group).astype(np.int8),
            "label": label,
            "style": style,
            "severity": np.ones(n),
            "group": group,
            "label_name": pa.array(LABELS).take(pa.array(label)).dictionary_encode(),
            "style_name": pa.array(STYLES).take(pa.array(style)).dictionary_encode(),
            "origin": name,
            "quantile": (place[label, number - low] + 0.5) / (high - low),
            "license": pa.array(["CC0-1.0"]).take(pa.array(np.zeros(n, np.int8))),
            "attribution": pa.array(["Nobody"]).take(pa.array(np.zeros(n, np.int8))),
            "params": _joined(["{}"], np.zeros(n, np.int8), "", number),
            "shard": np.zeros(n, np.int32),
            "row": np.arange(n, dtype=np.int32),
            "offset": np.arange(n) * 5000,
            "length": np.full(n, 4990, np.int32),
            "sha256": pa.Array.from_buffers(pa.binary(32), n, [None, pa.py_buffer(rng.bytes(32 * n))]),
        }
        yield {what: pa.array(column) for what, column in one.items()} | {
            "sha256": one["sha256"].cast(pa.binary())
        }


def _joined(names: list[str], codes: NDArray[np.int64], between: str, number: NDArray[np.int64]) -> pa.Array:
    digits = pc.utf8_lpad(pa.array(number).cast(pa.string()), 6, "0")
    return pc.binary_join_element_wise(pa.array(names).take(pa.array(codes)), digits, between)


def _manifest(roles: Roles, files: dict[str, FileRecord]) -> Manifest:
    none = hashlib.sha256().hexdigest()  # nothing here looks at ids
    sizes = dict(zip(SPLITS, (record.rows or 0 for record in files.values()), strict=True))
    pixels = {
        data_file(BASE, split, 0, 1): FileRecord(bytes=4990 * rows, sha256=none, rows=rows)
        for split, rows in sizes.items()
    }
    splits = {split: Split(rows=rows, bytes=5000 * rows, groups=4800) for split, rows in sizes.items()}
    text = dict.fromkeys(("family", "released", "title", "summary", "citation", "license"), "x")
    return Manifest(
        **text, name="rows", version="1.0.0", creators=["x"],
        credits=[Credit(license="x", attribution="x", rows=sum(sizes.values()))],
        more_credits=0, datasheet={}, seed=0, recipe_id=none, content_id=none, roles=roles,
        origins_shared=True, labels=LABELS, nuisances=STYLES, severities=[], default_base=BASE,
        bases=[Base(name=BASE, summary="x", content_id=none, splits=splits)], canonical_splits=[], sample={},
        files=files, withheld=pixels, publishes="splits",
    )  # fmt: skip


def measured(folder: Path, before: str, timed: str, limit: float) -> Measured:
    """Run a step in a process of its own, and ask the kernel for the peak of its memory until it ends."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        given, said = [str(folder), before, timed, f"{scratch}/file.parquet"], Path(scratch) / "said"
        with said.open("w") as output:
            child = subprocess.Popen([sys.executable, "-c", CHILD, *given], stdout=output, stderr=output)
        peak, ended = 0.0, 0
        while not ended:
            time.sleep(0.02)
            peak = _peak(child.pid) or peak
            if peak > limit:
                os.kill(child.pid, signal.SIGKILL)  # `child.kill` may already wait for it
            ended, status = os.waitpid(child.pid, os.WNOHANG)
        child.returncode = os.waitstatus_to_exitcode(status)
        if peak > limit:
            return Measured(np.nan, np.nan, limit, "too much")
        if child.returncode:
            print(said.read_text()[-600:], file=sys.stderr)
            return Measured(np.nan, np.nan, np.nan, "failed")
        return Measured(*map(float, said.read_text().split()), peak)


def _peak(pid: int) -> float:
    """The largest memory of a running process so far, in GB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1e6


def steps() -> dict[str, tuple[str, str]]:
    """Every step: its name, what is made before, what is timed."""
    made = {name: ("", f"sd.task(folder, {of}, on_empty='report')") for name, of in PROTOCOLS.items()}
    return made | {name: (f"task = sd.task(folder); {one}", timed) for name, (one, timed) in STEPS.items()}


def main() -> None:
    """Measure each step at each size, and how it grows."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, nargs="+", default=SIZES)
    parser.add_argument("--only", nargs="+", default=[""], help="steps whose names contain any of these")
    parser.add_argument("--folder", type=Path, help="keeps what is written for another run")
    parser.add_argument("--limit", type=float, default=8.0, help="GB of memory at which a step is stopped")
    parser.add_argument("--repeat", type=int, default=1, help="times that each step is run; the least counts")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folders = {}
        for rows in given.rows:
            folder = (given.folder or Path(scratch)) / str(rows)
            started = time.perf_counter()
            if not (folder / FILE_NAME).exists():
                write(folder, rows)
                print(f"{rows:,} rows written in {time.perf_counter() - started:.0f} s", flush=True)
            folders[rows] = folder
        print(
            f"{'seconds, busy, GB':<24}"
            + "".join(f"{rows:>22,}" for rows in folders)
            + "  x rows: x busy, x GB"
        )
        faster = []
        for name, step in steps().items():
            if not any(text in name for text in given.only):
                continue
            done = {rows: least(folder, step, given) for rows, folder in folders.items()}
            growth = [
                (after / rows, done[rows].growth(done[after])) for rows, after in pairwise(sorted(done))
            ]
            shown = "; ".join(f"{rows:g}: {busy:.1f}, {peak:.1f}" for rows, (busy, peak) in growth)
            print(
                f"{name:<24}" + "".join(f" {figures}" for figures in done.values()) + f"  {shown}", flush=True
            )
            if any(max(grown) > rows for rows, grown in growth):
                faster.append(name)
        print(f"\ngrow faster than rows: {', '.join(faster) or 'none'}")


def least(folder: Path, step: tuple[str, str], given: argparse.Namespace) -> Measured:
    """Return the run of a step that took the least processor time: what others do only adds to it."""
    runs = [measured(folder, *step, given.limit) for _ in range(given.repeat)]
    return min(runs, key=lambda run: run.busy)


if __name__ == "__main__":
    main()
