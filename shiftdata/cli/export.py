"""`shiftdata export`: a dataset in another form, for other readers."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from shiftdata.cli.task import on_empty_option, protocol_of
from shiftdata.cli.verbs import GOES_ON, dataset_argument, progress, quiet_option, verb
from shiftdata.data.dataset import OpenDataset, open_dataset
from shiftdata.data.exporting import folders, webdataset
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.paths import is_tar
from shiftdata.data.places.search import NAMESPACE
from shiftdata.errors import InputError
from shiftdata.evaluation.protocols import Protocol, parse_protocol
from shiftdata.evaluation.protocols import task as task_of
from shiftdata.evaluation.tasks import OnEmpty, Task
from shiftdata.evaluation.tasks.rows import row_set

TARS = "webdataset"
FORMS = {TARS: "tars of bases or tasks, for training from front to back; texts and tables too"}
FORMS |= {name: layout.about for name, layout in folders.LAYOUTS.items()}
LISTED = "\n".join(f"      {name:<17}{about}" for name, about in FORMS.items())


@verb(
    f"""
    forms:
{LISTED}

    examples:
      shiftdata export sma_emoji --to webdataset
      shiftdata export sma_emoji --to webdataset --config gf_k8_mu10 --config extended
      shiftdata export sma_emoji --to imagefolder --out folders/sma_emoji
      shiftdata export sma_emoji --to wilds --config gf_k8_mu10 --out folders/wilds
      shiftdata export dom_emoji --to domainbed --out folders/domainbed/dom_emoji --pool folders/.pool
      shiftdata export sma_emoji group-fairness k=4 mu=0.1 --to balancinggroups --out folders/groups
      shiftdata export sma_emoji uda source=amber target=terracotta --to balancinggroups \\
          --sets train=source_train,test=target_test --out folders/uda
      shiftdata export https://mirror.example.org/shift/sma_emoji mine.parquet --to lists --out folders/mine
    """,
    interrupted=GOES_ON,
)
@dataset_argument
@click.argument(
    "protocol",
    nargs=-1,
    metavar="[PROTOCOL [KEY=VALUE]...]...",
    help="The task, as `shiftdata task` takes it. [default: the canonical train, validation and test]",
)
@click.option("--to", "form", required=True, type=click.Choice(list(FORMS)), help="The form.")
@click.option("--out", type=Path, metavar="FOLDER", help="The folder to make. [tars: build/shift/<name>_wds]")
@click.option(
    "--config",
    "configs",
    multiple=True,
    metavar="NAME",
    help="A canonical split or a base; tars: or several.",
)
@click.option("--base", metavar="NAME", help="Only this base. [default: the default base; tars: all of them]")
@on_empty_option
@click.option("--sets", metavar="NEW=SET,...", help="Only these sets, under new names: train=source_train.")
@click.option("--pool", type=Path, metavar="FOLDER", help="Keep each picture once there, and link to it.")
@click.option("--shard-mb", default=256.0, metavar="MIB", help="Largest size of a tar.")
@click.option("--shards", type=click.IntRange(min=1), metavar="N", help="Least tars of a set. [16]")
@click.option("--gzip", is_flag=True, help="Compress tars: smaller, for reading from front to back only.")
@click.option("--overwrite", is_flag=True, help="Replace an earlier export of other content.")
@quiet_option
def command(
    dataset: str,
    protocol: tuple[str, ...],
    form: str,
    out: Path | None,
    configs: tuple[str, ...],
    base: str | None,
    on_empty: OnEmpty,
    sets: str | None,
    pool: Path | None,
    overwrite: bool,
    quiet: bool,
    **tars: Any,
) -> None:
    """Write a dataset or a task of it as tars, or a task as a folder that existing code reads.

    Pictures keep their bytes, each checked by its hash, and only those of the task are fetched. Without
    --config, --base and PROTOCOL, the tars have all bases.
    """
    renamed = _renamed(sets) if sets else {}
    if form == TARS:
        if pool:
            raise InputError("--pool is for folders of pictures, which tars are not")
        chosen = _chosen_tars(dataset, configs, base, protocol, on_empty, renamed)
        return _export_tars(*chosen, out, overwrite, quiet, **tars)
    if given := [f"--{name.replace('_', '-')}" for name in ("shards", "gzip") if tars[name]]:
        raise InputError(f"{' and '.join(given)}: only --to {TARS} makes tars")
    if out is None:
        raise InputError(f"--to {form} needs --out, the folder to make")
    if len(configs) > 1:
        raise InputError(f"--to {form} takes one --config, got {', '.join(configs)}")
    task = folders.chosen_task(
        dataset,
        config=next(iter(configs), None),
        base=base,
        protocol=protocol_of(protocol),
        on_empty=on_empty,
    )
    rows = [task.sets[name].indices for name in renamed.values() or task.sets if name in task.sets]
    total = len(np.unique(np.concatenate(rows))) if rows else 0
    with progress("export", total, "picture", quiet=quiet) as bar:
        made = folders.export(
            task, form, out, sets=renamed or None, pool=pool, overwrite=overwrite, on_images=bar.update
        )
    return _print_made(made)


def _renamed(text: str) -> dict[str, str]:
    """The old name of each new one: `train=source_train,test`."""
    pairs = [word.partition("=") for word in text.split(",")]
    sets = {new: old or new for new, _, old in pairs}
    if len(sets) < len(pairs) or "" in sets:
        raise InputError(f"--sets gives each set its own name, as in train=source_train,test; got {text}")
    return sets


def _print_made(made: folders.Exported) -> None:
    record, images = made.record, made.images
    counts = ", ".join(f"{name} {rows['examples']:,}" for name, rows in record.sets.items())
    print(f"{made.folder}: {record.dataset}/{record.base}, {record.task}, as {record.layout}: {counts}")
    if images is None:
        print("it was there already, and is left as it is")
    else:
        links = [f"{count:,} {kind}" for kind, count in sorted(images.linked.items())]
        print(f"{', '.join([f'{images.files:,} files', *links])}; {images.written / 1e6:,.1f} MB written")
    if any(one["class"] != one["label"] for one in record.class_to_label):
        print("its classes have other numbers than the dataset's labels: class_to_label in shiftdata.json")
    for note in record.notes:
        print(f"note: {note}")


def _chosen_tars(
    dataset: str,
    configs: tuple[str, ...],
    base: str | None,
    protocol: tuple[str, ...],
    on_empty: OnEmpty,
    renamed: dict[str, str],
) -> tuple[OpenDataset, tuple[str, ...], dict[str, Task]]:
    """The dataset, the configs and the tasks that a command line asks for."""
    opened = open_dataset(dataset)
    if base and not protocol:  # a whole base
        configs, base = (*configs, base), None
    tasks: dict[str, Task] = {}
    if protocol:
        words = protocol_of(protocol)
        tasks[_task_name(words, opened.manifest)] = task_of(opened, words, base=base, on_empty=on_empty)
    if renamed:
        if len(tasks) + len(configs) != 1:
            raise InputError("--sets goes with one task: a PROTOCOL, or one --config")
        if configs:
            tasks, configs = {configs[0]: folders.chosen_task(opened, config=configs[0])}, ()
        ((name, task),) = tasks.items()
        tasks = {name: replace(task, sets={new: row_set(task, old) for new, old in renamed.items()})}
    return opened, configs, tasks


def _task_name(protocol: Protocol | str | None, manifest: Manifest) -> str:
    """The config that a task becomes in tars: of a file, its name."""
    if isinstance(protocol, str):
        if protocol.endswith(".parquet"):
            return re.sub(r"[^A-Za-z0-9_]+", "_", Path(protocol).stem)
        if manifest.canonical(protocol):
            return protocol
        protocol = parse_protocol(protocol)
    return protocol.config_name if protocol else "canonical"


def _export_tars(
    opened: OpenDataset,
    configs: tuple[str, ...],
    tasks: dict[str, Task],
    out: Path | None,
    overwrite: bool,
    quiet: bool,
    *,
    shard_mb: float,
    shards: int | None,
    gzip: bool,
) -> None:
    whole = opened.manifest
    out = out or Path("build") / NAMESPACE / f"{whole.name}_wds"
    sizes = [sum(split.rows for split in whole.splits_of(name).values()) for name in configs]
    sizes += [sum(map(len, task.sets.values())) for task in tasks.values()]
    with progress("export", sum(sizes) if sizes else whole.rows, "sample", quiet=quiet) as bar:
        folder = webdataset.export(
            opened,
            out,
            configs=configs,
            tasks=tasks,
            shard_bytes=int(shard_mb * (1 << 20)),
            shards=shards,
            gzip=gzip,
            overwrite=overwrite,
            on_samples=bar.update,
        )
    made = Manifest.read(folder)
    tars = sum(map(is_tar, made.files))
    for base in made.bases:
        print(f"{base.name}: {', '.join(f'{name} {size.rows:,}' for name, size in base.splits.items())}")
    print(f"{folder}: {tars} tars, {made.bytes / 1e6:.1f} MB, content {made.content_id[:16]}")
