"""Export tasks: as folders that existing code reads, or as WebDataset tars."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from shiftdata.data.dataset import DatasetName, OpenDataset, open_dataset
from shiftdata.data.exporting import folders, webdataset
from shiftdata.data.exporting.sets import NamedRows, NamedSets
from shiftdata.data.metadata import read_metadata
from shiftdata.errors import InputError
from shiftdata.evaluation.protocols.named import published
from shiftdata.evaluation.tasks import Task
from shiftdata.evaluation.tasks.rows import counts_of, hides_labels, key_array
from shiftdata.progress import shows


@shows("export", on_images=" pictures")
def export(
    task: Task,
    layout: str,
    out: str | Path,
    *,
    overwrite: bool = False,
    on_images: Callable[[int], object] = lambda count: None,
) -> folders.Exported:
    """Write the pictures of a task, and lists of them, into a folder as existing code expects them.

    Pictures are the dataset's own bytes, each compared with its hash; only those of the task are read. A
    dataset that has changed since the task was made is refused (`ChangedError`). Killed at any moment and
    called again, it goes on and ends in the same bytes; `out` appears whole. An export of the same task that
    is already there is left as it is.

    Args:
        task: any task over a dataset of pictures.
        layout: imagefolder, wilds, domainbed, lists or clip-benchmark.
        out: the folder to make.
        overwrite: replace an earlier export of other content.
        on_images: called with how many more pictures are in their places; default: a bar.

    """
    return folders.export(_sets_of(task), layout, out, overwrite=overwrite, on_images=on_images)


def export_tars(
    dataset: DatasetName,
    out: Path,
    *,
    configs: Sequence[str] = (),
    tasks: Mapping[str, Task] | None = None,
    **options: Any,
) -> Path:
    """Write bases, canonical splits and tasks of a dataset as tars, as `webdataset.export` does.

    Args:
        dataset: an opened dataset, or its name, folder or URL.
        out: the folder to make, such as `build/shift/<name>_wds`.
        configs: bases and canonical splits, by the names that `shiftdata info` lists.
        tasks: tasks of this dataset, by the names that they get as configs. Without these and `configs`, all
            bases are written.
        options: those of `webdataset.export`.

    """
    opened = open_dataset(dataset)
    every = {base.name for base in opened.manifest.bases}
    bases = [name for name in configs if name in every]
    splits = {name: canonical_split(opened, name) for name in configs if name not in every}
    if twice := {*every, *splits} & {*(tasks or {})}:
        raise InputError(f"{min(twice)} is a config of {opened.manifest.name}: give the task another name")
    sets = {name: _sets_of(of, config=name) for name, of in {**splits, **(tasks or {})}.items()}
    return webdataset.export(opened, out, configs=bases, tasks=sets, **options)


def canonical_split(dataset: OpenDataset, name: str) -> Task:
    """Make the task of a canonical split."""
    split, base, _ = dataset.manifest.rows_behind(name)
    assert split is not None  # else it is a base
    return published(read_metadata(dataset, base), split)


def _sets_of(task: Task, config: str = "") -> NamedSets:
    """Take the rows of a task's sets; of a canonical split, its record describes the `config`."""
    dataset = task.metadata.dataset
    if dataset is not None:
        dataset.check_unchanged(force=True)  # before anything is read by the positions of rows
    split = dataset.manifest.canonical(config) if dataset else None
    about = split.summary if split else f"{task.describe()} on {task.metadata.base}."
    return NamedSets(
        metadata=task.metadata,
        sets={name: _rows_of(task, name) for name in task.sets},
        protocol=split.protocol if split else task.describe(),
        summary=" ".join([about, *(f"{note}." for note in (split.notes if split else task.history.notes))]),
        identity=task.content_id(),
    )


def _rows_of(task: Task, name: str) -> NamedRows:
    hidden = key_array(task, name) if hides_labels(task, name) else None
    return NamedRows(task.rows(name), task.sets[name].roles, counts_of(task, name), hidden)
