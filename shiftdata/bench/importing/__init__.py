"""Import what authors published about their runs as records, which `report` reads as those of sweeps.

Imported records say so: their content_id is a hash of the authors' files, and no commit made them. What
judges predictions by a dataset's rows (leaderboards, `submit`) refuses them.
"""

from __future__ import annotations

import csv
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from shiftdata.bench.importing import domainbed, pictures, rlsbench
from shiftdata.bench.importing.logged import Files, Logged
from shiftdata.bench.records import DONE, RECORDS, SWEEP, Records, evaluated, write_runs, write_task
from shiftdata.errors import InputError, ShiftdataError, not_found
from shiftdata.evaluation.tasks import Evaluation
from shiftdata.files import write_text
from shiftdata.stable import content_hash
from shiftdata.untrusted.texts import read_json

#: What files of another form raise.
FAULTS = (ValueError, LookupError, TypeError, AttributeError, csv.Error, pa.ArrowException)
#: What each format reads, by whom, and the rules by which its authors choose.
FORMATS: Mapping[str, tuple[str, Callable[[Files], Iterator[Logged]], tuple[str, ...]]] = {
    "domainbed": ("results.jsonl of each run", domainbed.read, ("iid-mean-domain", "lodo-cv", "oracle-last")),
    "rlsbench": ("eval.csv of each run", rlsbench.read, ("iid", "oracle")),
    "cns-bench": ("<model>__<shift>.csv", pictures.read_cns_bench, ("last",)),
    "cifar-10.1": (f"its repository, and {pictures.CIFAR_TEST}", pictures.read_cifar101, ("last",)),
}


def import_records(form: str, path: Path, out: Path, on_file: Callable[[], object] = lambda: None) -> Records:
    """Write the runs in authors' files to a folder of records; the same files give the same records."""
    if form not in FORMATS:
        raise not_found("format", form, FORMATS)
    about, read, rules = FORMATS[form]
    about = f"{about}; imported, not rerun"
    asked = {"name": f"imported {form}", "about": about, "rules": [*rules], "imports": []}
    if (out / SWEEP).exists() and read_json(out / SWEEP) != asked:
        raise InputError(f"{out} has the records of another sweep: give a folder of its own as --out")
    files, tasks = Files(path, on_file), defaultdict[tuple[str, str], dict[str, Evaluation]](dict)
    try:
        runs = list(read(files))
    except ShiftdataError:
        raise
    except FAULTS as error:
        raise InputError(f"{path}: {files.name or 'a file'} has another form: {error!r:.200}") from error
    for run in runs:
        for result in chain.from_iterable(run.results.values()):
            tasks[run.dataset, run.task][result.set] = replace(result, task=run.task, dataset=run.dataset)
    ids = {}
    for place, sets in tasks.items():
        cells = [(name, {**result.to_dict()["cells"], "correct": 0}) for name, result in sets.items()]
        ids[place] = content_hash(form, json.dumps([place, cells]))
        write_task(out, ids[place], sets)
    rows = [_row(run, form, ids[run.dataset, run.task], files.content_id) for run in runs]
    if repeated := [id_ for id_, times in Counter(row["about"] for row in rows).items() if times > 1]:
        raise InputError(f"{path} has two runs of {repeated[0]:.300}: import their folders apart")
    write_runs(out / RECORDS / f"{files.content_id[-32:]}.parquet", rows)
    write_text(out / SWEEP, json.dumps(asked, indent=1) + "\n")
    return Records.read(out)


def _row(run: Logged, form: str, task_id: str, content_id: str) -> dict[str, Any]:
    about = {
        "sweep": f"imported {form}", "dataset": run.dataset, "content_id": content_id, "protocol": run.task,
        "task": run.task, "task_id": task_id, "method": run.method, "variant": "", "backbone": "as imported",
        "trial": run.trial, "seed": run.seed,
    }  # fmt: skip
    text = json.dumps({**about, "hyper": run.hyper}, sort_keys=True)
    evaluations = [evaluated(step, result) for step, results in run.results.items() for result in results]
    labels = run.predicted and [of.astype(np.int16) for of in run.predicted]
    ids = {"id": content_hash(text), "study": content_hash(form, task_id, run.method)[:32]}
    settings = {"hyper": json.dumps(run.hyper, sort_keys=True), "training": "{}", "about": text}
    return about | ids | settings | {"status": DONE, "evaluations": evaluations, "predicted": labels}
