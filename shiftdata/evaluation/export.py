"""Export tasks: as folders that existing code reads, or as WebDataset tars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Unpack

from shiftdata.data.dataset import DatasetName, OpenDataset, open_dataset
from shiftdata.data.exporting import folders, webdataset
from shiftdata.data.exporting.sets import NamedRows, NamedSets
from shiftdata.data.metadata import read_metadata
from shiftdata.errors import InputError, not_found
from shiftdata.evaluation.protocols import Protocol, task
from shiftdata.evaluation.protocols.named import published
from shiftdata.evaluation.tasks import OnEmpty, Task
from shiftdata.evaluation.tasks.rows import counts_of, hides_labels, key_array


def export(
    task: Task,
    layout: str,
    out: str | Path,
    *,
    sets: Mapping[str, str] | None = None,
    **options: Unpack[folders.FolderOptions],
) -> folders.Exported:
    """Write the pictures of a task, and lists of them, into a folder as existing code expects them.

    Pictures are the dataset's own bytes, each compared with its hash; only those of the task are read. A
    dataset that has changed since the task was made is refused (`ChangedError`). Killed at any moment and
    called again, it goes on and ends in the same bytes; `out` appears whole. An export of the same task that
    is already there is left as it is.

    Args:
        task: any task over a dataset of pictures.
        layout: imagefolder, wilds, domainbed, balancinggroups or lists.
        out: the folder to make.
        sets: the sets to take, by their new names, as in `{"train": "source_train"}`; default: all.
        options: `overwrite` replaces an earlier export; `on_images` is called with how many more pictures
            are in their places.

    """
    named = sets_of(task, sets)
    return folders.export(replace(named, identity=task.content_id()), layout, out, **options)


def export_tars(
    dataset: DatasetName,
    out: Path,
    *,
    configs: Sequence[str] = (),
    tasks: Mapping[str, Task] | None = None,
    **options: Unpack[webdataset.TarOptions],
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
    bases = [name for name in configs if name in {base.name for base in opened.manifest.bases}]
    splits = [name for name in configs if name not in bases]
    named = {name: task_of_config(opened, name) for name in splits}
    if twice := sorted({*named} & {*(tasks or {})}):
        raise InputError(f"{twice[0]} is a config of {opened.manifest.name}: give the task another name")
    sets = {name: sets_of(made, config=name) for name, made in {**named, **(tasks or {})}.items()}
    return webdataset.export(opened, out, configs=bases, tasks=sets, **options)


def chosen_task(
    dataset: DatasetName,
    *,
    config: str | None = None,
    base: str | None = None,
    protocol: Protocol | str | None = None,
    on_empty: OnEmpty = "error",
) -> Task:
    """Make the task that a command line names; by default the canonical sets of the default base.

    `config` is a canonical split (`gf_k8_mu10`) or a base, as `shiftdata info` lists them: its rows are those
    of `load_dataset(dataset, config)`. The others are as in `sd.task`.
    """
    if config is None:
        return task(dataset, protocol, base=base, on_empty=on_empty)
    if protocol or base:
        option = "a protocol" if protocol else "base"
        raise InputError(f"config and {option} do not go together: each of them says which rows to export")
    return task_of_config(open_dataset(dataset), config)


def task_of_config(dataset: OpenDataset, config: str) -> Task:
    """Make a task of the rows of a canonical split or a base."""
    split, base, names = dataset.manifest.rows_behind(config)
    if split is None:
        return task(dataset, base=base)
    made = published(read_metadata(dataset, base), split)
    sets = {name: made.sets[name] for name in names}
    return replace(made, sets=sets, history=replace(made.history, steps=(config,)))


def sets_of(task: Task, names: Mapping[str, str] | None = None, config: str = "") -> NamedSets:
    """Take the rows of a task's sets, under new `names`; a canonical split's card describes its `config`."""
    for name in (names or {}).values():
        if name not in task.sets:
            raise not_found("set", name, task.sets, f"The task is {task.describe()}.")
    names = names or {name: name for name in task.sets}
    dataset = task.metadata.dataset
    if dataset is not None:
        dataset.check_unchanged(force=True)  # before anything is read by the positions of rows
    split = dataset.manifest.canonical(config) if dataset else None
    about = split.summary if split else f"{task.describe()} on {task.metadata.base}."
    return NamedSets(
        metadata=task.metadata,
        sets={new: _rows_of(task, old) for new, old in names.items()},
        protocol=split.protocol if split else task.describe(),
        summary=" ".join([about, *(f"{note}." for note in (split.notes if split else task.history.notes))]),
    )


def _rows_of(task: Task, name: str) -> NamedRows:
    hidden = key_array(task, name) if hides_labels(task, name) else None
    return NamedRows(task.rows(name), task.sets[name].roles, counts_of(task, name), hidden)
