"""Predictions picture by picture: CNS-Bench's results archive, and CIFAR-10.1's predictions of 30 models."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from pathlib import PurePosixPath

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shiftdata.bench.importing.logged import Files, Logged
from shiftdata.data.arrays import IntArray
from shiftdata.data.metadata import metadata_from_table
from shiftdata.errors import InputError
from shiftdata.evaluation.protocols import parse_protocol
from shiftdata.evaluation.protocols import task as make_task
from shiftdata.evaluation.tasks import Task
from shiftdata.evaluation.tasks.official import Figure
from shiftdata.untrusted.arrays import read_array
from shiftdata.untrusted.texts import read_csv_table, read_json

#: The columns of <model>__<shift>.csv: benchmarking/prepare_csv_files.py. The first three are the picture.
CNS_COLUMNS = {
    "shift": pa.string(), "class_str": pa.string(), "img_name": pa.string(), "seed": pa.string(),
    "scale": pa.float64(), "gt_class": pa.int64(), "pred_class": pa.int64(),
}  # fmt: skip
PICTURE, TRUTH = list(CNS_COLUMNS)[:3], list(CNS_COLUMNS)[:-1]
CIFAR_LABELS = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
#: The labels of CIFAR-10's test batch in its order, as the repository cleanlab/label-errors has them.
CIFAR_TEST = "cifar10_test_set_original_labels.npy"


def read_cns_bench(files: Files) -> Iterator[Logged]:
    """Yield each model of a results archive, judged by the task `continuous@paper` of all its pictures.

    At each severity `rows@` is the share of right rows, whatever their shift, which table 2 prints.
    """
    first: pa.Table = None
    for model, parts in groupby(files.parsed("*__*.csv", _shift_of_model), itemgetter(0)):
        table = pa.concat_tables(part for _, part in parts)
        table = table.sort_by([(name, "ascending") for name in PICTURE])
        if first is None:
            first, (task, outputs) = table, _cns_task(table)
        if not table.select(TRUTH).equals(first.select(TRUTH)):
            raise InputError(f"{files.path}: {model} was tested on other pictures than the first model")
        result = task.evaluate(table["pred_class"].to_numpy(), "test", outputs=outputs)
        by = result.by("severity")
        pairs = zip(by.names or (), by.accuracy.tolist(), by.n.tolist(), strict=True)
        shares = {f"rows@{at}": Figure(value, n) for at, value, n in pairs}
        result = replace(result, figures={**result.figures, **shares})
        yield Logged("cns_bench", task.describe(), model, 0, 0, {0: [result]})


def _cns_task(table: pa.Table) -> tuple[Task, IntArray]:
    """Return the task of the pictures, and the label of each output of the models."""
    for name, parts in (("key", PICTURE), ("origin", ("class_str", "seed"))):
        joined = pc.binary_join_element_wise(*(table[part] for part in parts), "/")
        table = table.append_column(name, joined)
    metadata = metadata_from_table(
        table,
        label="class_str", nuisance="shift", origin="origin", severity="scale", name="cns_bench",
    )  # fmt: skip
    outputs = np.full(1000, -1)
    outputs[table["gt_class"].to_numpy()] = metadata.label
    return make_task(metadata, parse_protocol("continuous@paper")), outputs


def _shift_of_model(name: str, data: bytes) -> tuple[str, pa.Table]:
    model, table = PurePosixPath(name).name.rpartition("__")[0], read_csv_table(data, name)
    if not table[model].equals(pc.equal(table["pred_class"], table["gt_class"])):
        raise ValueError(f"its column {model} is not whether pred_class is gt_class")
    return model, table.select(list(CNS_COLUMNS)).cast(pa.schema(CNS_COLUMNS))


def read_cifar101(files: Files) -> Iterator[Logged]:
    """Yield each model: CIFAR-10.1 v6 is its test; CIFAR-10's, where its labels are there, its validation."""
    sides = {"original": "validation", "v6": "test"}
    truth = dict(files.parsed(CIFAR_TEST, lambda _, data: ("original", read_array(data)), optional=True))
    truth |= files.parsed("cifar10.1_v6_labels.npy", lambda _, data: ("v6", read_array(data)))
    rows = [
        {"key": f"{side}-{row:05}", "label": CIFAR_LABELS[label], "source": side, "split": sides[side]}
        for side, labels in truth.items()
        for row, label in enumerate(labels.tolist())
    ]
    table = pa.Table.from_pylist(rows)
    metadata = metadata_from_table(
        table, nuisance="source", split="split", labels=CIFAR_LABELS, name="CIFAR-10.1"
    )
    task = make_task(metadata, on_empty="report")
    models: dict[str, dict[str, IntArray]] = defaultdict(dict)
    for side in truth:
        for model, labels in files.parsed(f"{side}_predictions/*_predictions.json", _predictions):
            models[model][sides[side]] = labels
    for model, given in models.items():
        results = [task.evaluate(labels, name) for name, labels in given.items()]
        yield Logged("CIFAR-10.1", task.describe(), model, 0, 0, {0: results}, {}, list(given.values()))


def _predictions(name: str, data: bytes) -> tuple[str, IntArray]:
    model = PurePosixPath(name).stem.removesuffix("_predictions")
    return model, np.array(read_json(data, name)).astype(np.int64, casting="safe")
