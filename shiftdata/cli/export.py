"""`shiftdata export`: a dataset in another form, for other readers."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from shiftdata.cli.task import protocol_of, task_arguments
from shiftdata.cli.verbs import GOES_ON, progress, quiet_option, verb
from shiftdata.data.dataset import open_dataset
from shiftdata.data.exporting import folders, webdataset
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.paths import is_tar
from shiftdata.data.places.search import NAMESPACE
from shiftdata.errors import InputError
from shiftdata.evaluation.export import chosen_task, export, export_tars, task_of_config
from shiftdata.evaluation.protocols import parse_protocol, task
from shiftdata.evaluation.tasks import Task
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
      shiftdata export dom_emoji --to domainbed --out folders/domainbed/dom_emoji
      shiftdata export sma_emoji group-fairness k=4 mu=0.1 --to balancinggroups --out folders/groups
      shiftdata export sma_emoji uda source=amber target=terracotta --to balancinggroups \\
          --sets train=source_train,test=target_test --out folders/uda
      shiftdata export https://mirror.example.org/shift/sma_emoji mine.parquet --to lists --out folders/mine

    Without PROTOCOL and --config, the sets are the canonical train, validation and test; without --base too,
    tars have all bases.
    """,
    interrupted=GOES_ON,
)
@task_arguments(required=True)
@click.option("--to", "form", required=True, type=click.Choice(list(FORMS)), help="The form.")
@click.option("--out", type=Path, metavar="FOLDER", help="The folder to make. [tars: build/shift/<name>_wds]")
@click.option("--config", "configs", multiple=True, help="A canonical split or a base; tars: or several.")
@click.option("--sets", metavar="NEW=SET,...", help="Only these sets, under new names: train=source_train.")
@click.option("--shard-mb", default=256.0, metavar="MIB", help="Largest size of a tar.")
@click.option("--overwrite", is_flag=True, help="Replace an earlier export of other content.")
@quiet_option
def command(
    dataset: str,
    protocol: tuple[str, ...],
    form: str,
    out: Path | None,
    configs: tuple[str, ...],
    sets: str | None,
    overwrite: bool,
    quiet: bool,
    shard_mb: float,
    **of_task: Any,
) -> None:
    """Write a dataset or a task of it as tars, or a task as a folder that existing code reads.

    Pictures keep their bytes, each checked by its hash, and only those of the task are fetched.
    """
    renamed = _renamed(sets) if sets else {}
    if form == TARS:
        if of_task["base"] and not protocol:  # a whole base
            configs = (*configs, of_task["base"])
        tasks = _task_of_tars(dataset, protocol, of_task) if protocol else {}
        size = int(shard_mb * (1 << 20))
        options = webdataset.TarOptions(shard_bytes=size, overwrite=overwrite)
        return _export_tars(dataset, configs, tasks, renamed, out, quiet, options)
    if out is None:
        raise InputError(f"--to {form} needs --out, the folder to make")
    if len(configs) > 1:
        raise InputError(f"--to {form} takes one --config, got {', '.join(configs)}")
    config = next(iter(configs), None)
    chosen = chosen_task(dataset, config=config, protocol=protocol_of(protocol), **of_task)
    rows = [chosen.sets[name].indices for name in renamed.values() or chosen.sets if name in chosen.sets]
    total = len(np.unique(np.concatenate(rows))) if rows else 0
    with progress("export", total, "picture", quiet=quiet) as bar:
        exported = export(chosen, form, out, sets=renamed or None, overwrite=overwrite, on_images=bar.update)
    return _print_folder(exported)


def _renamed(text: str) -> dict[str, str]:
    """Read the old name of each new one: `train=source_train,test`."""
    pairs = [word.partition("=") for word in text.split(",")]
    sets = {new: old or new for new, _, old in pairs}
    if len(sets) < len(pairs) or "" in sets:
        raise InputError(f"--sets gives each set its own name, as in train=source_train,test; got {text}")
    return sets


def _print_folder(exported: folders.Exported) -> None:
    record = exported.record
    counts = ", ".join(f"{name} {rows['examples']:,}" for name, rows in record["sets"].items())
    about = "{dataset}/{base}, {task}, as {layout}".format_map(record)
    print(f"{exported.folder}: {about}: {counts}")
    unchanged = "it was there already, and is left as it is; --overwrite writes it again"
    print(unchanged if exported.written is None else f"{exported.written:,} files")
    if any(label["class"] != label["label"] for label in record["class_to_label"]):
        print("its classes have other numbers than the dataset's labels: class_to_label in shiftdata.json")
    for note in record["notes"]:
        print(f"note: {note}")


def _task_of_tars(dataset: str, protocol: tuple[str, ...], options: dict[str, Any]) -> dict[str, Task]:
    """Make the task of a command line, by the name of its config in tars."""
    opened, words = open_dataset(dataset), protocol_of(protocol)
    name = words if isinstance(words, str) else words.config_name if words else "canonical"
    if name.endswith(".parquet"):
        name = re.sub(r"[^A-Za-z0-9_]+", "_", Path(name).stem)
    elif isinstance(words, str) and not opened.manifest.canonical(words):
        named = parse_protocol(words)
        name = named.config_name if named else "canonical"
    return {name: task(opened, words, **options)}


def _export_tars(
    dataset: str,
    configs: tuple[str, ...],
    tasks: dict[str, Task],
    renamed: dict[str, str],
    out: Path | None,
    quiet: bool,
    options: webdataset.TarOptions,
) -> None:
    opened = open_dataset(dataset)
    if renamed:
        if len(tasks) + len(configs) != 1:
            raise InputError("--sets goes with one task: a PROTOCOL, or one --config")
        tasks, configs = tasks | {name: task_of_config(opened, name) for name in configs}, ()
        ((name, chosen),) = tasks.items()
        tasks = {name: replace(chosen, sets={new: row_set(chosen, old) for new, old in renamed.items()})}
    out = out or Path("build") / NAMESPACE / f"{opened.manifest.name}_wds"
    sizes = [sum(split.rows for split in opened.manifest.splits_of(name).values()) for name in configs]
    sizes += [sum(map(len, chosen.sets.values())) for chosen in tasks.values()]
    with progress("export", sum(sizes) if sizes else opened.manifest.rows, "sample", quiet=quiet) as bar:
        options["on_samples"] = bar.update
        folder = export_tars(opened, out, configs=configs, tasks=tasks, **options)
    manifest = Manifest.read(folder)
    for config in manifest.bases:
        print(f"{config.name}: {', '.join(f'{name} {size.rows:,}' for name, size in config.splits.items())}")
    tars = sum(map(is_tar, manifest.files))
    print(f"{folder}: {tars} tars, {manifest.bytes / 1e6:.1f} MB, content {manifest.content_id[:16]}")
