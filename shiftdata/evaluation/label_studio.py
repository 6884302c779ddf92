"""Label Studio: pictures of a dataset as tasks of a project, and the labels of its exports."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np

from shiftdata.data.dataset import DatasetName, open_dataset
from shiftdata.data.format.conditions import matches, parse_condition, resolve
from shiftdata.data.loading.byte_ranges import ExampleReader
from shiftdata.data.metadata import Metadata, read_metadata
from shiftdata.errors import InputError
from shiftdata.evaluation.labels import Label
from shiftdata.evaluation.protocols.base import places
from shiftdata.files import write_text
from shiftdata.stable import ranks
from shiftdata.untrusted.pictures import open_picture
from shiftdata.untrusted.texts import read_json

TASKS, CONFIG = "tasks.json", "config.xml"
#: The name of the question in a project, by which its answers are found again.
QUESTION = "label"

_CONFIG = """\
<View>
  <Header value="$about"/>
  <Image name="image" value="$image"/>
  <Choices name="{question}" toName="image" choice="single" showInLine="true">
{choices}
  </Choices>
</View>
"""


def write_project(out: Path, tasks: Sequence[Mapping[str, Any]], labels: Iterable[str]) -> None:
    """Write tasks to import, and the labelling interface: a picture and one label of `labels`."""
    choices = "\n".join(
        f'    <Choice value={quoteattr(label)} hotkey="{number}"/>' for number, label in enumerate(labels, 1)
    )
    write_text(out / TASKS, json.dumps(tasks, ensure_ascii=False) + "\n")
    write_text(out / CONFIG, _CONFIG.format(question=QUESTION, choices=choices))


def task_of(key: str, picture: bytes, about: str) -> dict[str, Any]:
    """Return a task with a picture in it, so that Label Studio needs no file."""
    with open_picture(picture) as opened:
        kind = opened.get_format_mimetype()
    image = f"data:{kind};base64,{base64.b64encode(picture).decode()}"
    return {"data": {"key": key, "about": about, "image": image}}


def tasks_of(
    name: DatasetName,
    conditions: Sequence[str] = (),
    base: str | None = None,
    *,
    each: int | None = None,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """Return pictures that meet all conditions as tasks, in an order by stable hash; `each` of a group."""
    dataset = open_dataset(name)
    manifest = dataset.manifest
    manifest.require_pixels(dataset.address)
    if manifest.roles.modality != "image" or manifest.is_webdataset:
        raise InputError(f"{manifest.name} has no pictures in Parquet files: only those can be labelled")
    base = base or manifest.default_base
    metadata = read_metadata(dataset, base)
    rows = _chosen(metadata, conditions, each, seed)
    if not len(rows):
        raise InputError(
            f"no row of {manifest.name}/{base} meets {' '.join(conditions)}: see `shiftdata info`"
        )
    severity = metadata.columns["severity"]
    pictures = ExampleReader(dataset, base).read(rows.tolist())
    tasks = []
    for row, key, picture in zip(rows.tolist(), metadata.keys(rows).to_pylist(), pictures, strict=True):
        nuisance = int(metadata.nuisance[row])
        about = [metadata.labels[metadata.label[row]], metadata.nuisances[nuisance] if nuisance >= 0 else ""]
        about.append(f"severity {severity[row]:g}" if len(manifest.severities) > 1 else "")
        tasks.append(task_of(key, picture, ", ".join(filter(None, about))))
    return tasks


def _chosen(metadata: Metadata, conditions: Sequence[str], each: int | None, seed: int) -> Any:
    clause = [
        resolve(
            parse_condition(text),
            labels=metadata.labels, nuisance=metadata.nuisance_column, nuisances=metadata.nuisances,
        )
        for text in conditions
    ]  # fmt: skip
    if unknown := sorted({column for column, *_ in clause} - {*metadata.columns}):
        raise InputError(f"{', '.join(unknown)}: conditions here are on {', '.join(metadata.columns)}")
    rows = np.flatnonzero(matches(metadata.columns, [clause]))
    order = ranks(metadata.keys(rows).to_pylist(), "label", seed)
    if each is not None and len(rows):
        mask = places(metadata.group[rows].astype(np.int64) + 1, order)[0] < each  # 0: rows without a group
        rows, order = rows[mask], order[mask]
    return rows[np.argsort(order)]


def read_export(path: Path) -> list[Label]:
    """Read the labels of an export of Label Studio as JSON."""
    try:
        labels = [label for task in read_json(path, limit="raw_json_bytes") for label in _labels_of(task)]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{path} is not an export of such a project ({type(error).__name__}: {error}): "
            "export it from Label Studio as JSON"
        ) from error
    return sorted(labels, key=lambda row: (row.when, row.key, row.who))


def _labels_of(task: Mapping[str, Any]) -> Iterable[Label]:
    """Return the labels of a task, one an annotation."""
    for annotation in task["annotations"]:
        who = annotation["completed_by"]
        name = who["email"] if isinstance(who, dict) else str(who)
        for result in [] if annotation.get("was_cancelled") else annotation["result"]:
            if result["from_name"] == QUESTION:
                (label,) = result["value"]["choices"]
                yield Label(task["data"]["key"], label, name, annotation["updated_at"])
