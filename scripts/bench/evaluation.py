"""Tasks, samplers and metrics on 2.86 M rows in 4,800 groups, from metadata files: time and memory.

python scripts/bench/evaluation.py [--rows 2860000]
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

LABELS, NUISANCES = 240, 20
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
    "three composed": "GroupFairness(k=20, mu=.1) & LabelShift(alpha=9, variant='code') & (severity <= 1.5)",
}
#: What runs in a process of its own, so that its peak of memory is that of one task.
ONE = """
import sys, time, resource, warnings
import shiftdata as sd
from shiftdata.protocols import GroupFairness, LabelShift, severity
from shiftdata.metadata import Metadata
from pathlib import Path
import pyarrow.parquet as pq, pyarrow as pa
warnings.simplefilter("ignore")
of = eval(sys.argv[2])
started = time.perf_counter()
read = pa.concat_tables([pq.read_table(Path(sys.argv[1]) / f"{s}.parquet")
                         for s in ("train", "validation", "test")])
rows = Metadata(read, tuple(f"label{n}" for n in range(240)), tuple(f"style{n}" for n in range(20)),
                "style", True)
task = sd.task(rows, of, on_empty="report")
spent = time.perf_counter() - started
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
rows = sum(map(len, task.sets.values()))
print(f"{spent:7.2f} s {peak:6.2f} GB  {rows:>10,} rows in {len(task.sets)} sets")
if of is None:
    import numpy as np
    from shiftdata.metrics import group_accuracy

    label, group = task.metadata.columns["label"], task.metadata.group
    for rule in ("rwg", "subg", "n-groups"):
        started = time.perf_counter()
        task.sampler(rule, batch_size=64, **({"n_groups_per_batch": 8} if rule == "n-groups" else {}))
        print(f"  sampler {rule:<16}{time.perf_counter() - started:7.2f} s")
    started = time.perf_counter()
    group_accuracy(label, label, group, n_groups=4800)
    print(f"  accuracy of 4,800 groups{time.perf_counter() - started:7.3f} s")
    truth = label[task.rows("test")]
    started = time.perf_counter()
    task.evaluate(truth)
    print(f"  evaluate {len(truth):,} rows{time.perf_counter() - started:7.3f} s")
"""


def write(folder: Path, rows: int) -> None:
    """Write such metadata: origins of a label recur in every style."""
    rng = np.random.default_rng(0)
    per_label = rows // (LABELS * NUISANCES)
    label = np.repeat(np.arange(LABELS), per_label * NUISANCES)
    origin = np.tile(np.repeat(np.arange(per_label), NUISANCES), LABELS)
    style = np.tile(np.arange(NUISANCES), LABELS * per_label)
    fold = 100 * origin // per_label
    for split, (low, high) in {"train": (0, 50), "validation": (50, 70), "test": (70, 100)}.items():
        mine = np.flatnonzero((fold >= low) & (fold < high))
        mine = mine[np.argsort(rng.random(len(mine)))]
        first = origin[mine].min()
        size = origin[mine].max() - first + 1
        names = [
            f"label{a:03d}-content-image-{b:05d}" for a, b in zip(label[mine], origin[mine], strict=True)
        ]
        table = {
            "key": [f"{name}-style{c}" for name, c in zip(names, style[mine], strict=True)],
            "split": np.full(len(mine), split),
            "fold": fold[mine].astype(np.int8),
            "label": label[mine],
            "style": style[mine],
            "severity": np.ones(len(mine)),
            "group": (label[mine] * NUISANCES + style[mine]).astype(np.int32),
            "origin": names,
            "quantile": (origin[mine] - first + 0.5) / size,
        }
        pq.write_table(pa.table(table), folder / f"{split}.parquet")


def main() -> None:
    """Measure each protocol in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_860_000)
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        write(Path(folder), rows)
        print(
            f"{rows:,} rows in {LABELS * NUISANCES:,} groups written in {time.perf_counter() - started:.0f} s"
        )
        for name, of in PROTOCOLS.items():
            done = subprocess.run([sys.executable, "-c", ONE, folder, of], capture_output=True, text=True)
            print(f"{name:<24}{done.stdout.strip() or done.stderr.strip()[-300:]}", flush=True)
    print(f"(this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.1f} GB)")


if __name__ == "__main__":
    main()
