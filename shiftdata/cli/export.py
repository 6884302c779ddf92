"""`shiftdata export`: a dataset in another form, for other readers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click
import numpy as np

from shiftdata.cli.task import protocol_of, task_arguments
from shiftdata.cli.verbs import GOES_ON, progress, quiet_option, verb
from shiftdata.data.dataset import OpenDataset, open_dataset
from shiftdata.data.exporting import folders
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.paths import is_tar
from shiftdata.data.places.search import NAMESPACE
from shiftdata.errors import InputError
from shiftdata.evaluation.export import export, export_tars
from shiftdata.evaluation.protocols import Protocol, task
from shiftdata.evaluation.tasks import OnEmpty

TARS = "webdataset"
FORMS = {TARS: "tars of bases or tasks, for training from front to back; texts and tables too"}
FORMS |= {name: layout.about for name, layout in folders.LAYOUTS.items()}
LISTED = "\n".join(f"      {name:<17}{about}" for name, about in FORMS.items())


@verb(
    f"""
    forms:
{LISTED}

    examples:
      shiftdata export sma_glyphs --to webdataset
      shiftdata export sma_glyphs --to webdataset --config gf_k8_mu10 --config extended
      shiftdata export sma_glyphs --to imagefolder --out folders/sma_glyphs
      shiftdata export sma_glyphs gf_k8_mu10 --to wilds --out folders/wilds
      shiftdata export dom_glyphs --to domainbed --out folders/domainbed/dom_glyphs
      shiftdata export https://mirror.example.org/shift/sma_glyphs mine.parquet --to lists --out folders/mine

    Without PROTOCOL, the sets are the canonical train, validation and test; without --config and --base too,
    tars have all bases.
    """,
    interrupted=GOES_ON,
)
@task_arguments(required=True)
@click.option("--to", "form", required=True, type=click.Choice(list(FORMS)), help="The form.")
@click.option("--out", type=Path, metavar="FOLDER", help="The folder to make. [tars: build/shift/<name>_wds]")
@click.option("--config", "configs", multiple=True, help="Tars: a canonical split or a base; repeatable.")
@click.option("--shard-mb", default=256.0, metavar="MIB", help="Largest size of a tar.")
@click.option("--overwrite", is_flag=True, help="Replace an earlier export of other content.")
@quiet_option
def command(
    dataset: str,
    protocol: tuple[str, ...],
    form: str,
    out: Path | None,
    configs: tuple[str, ...],
    shard_mb: float,
    quiet: bool,
    base: str | None,
    on_empty: OnEmpty,
    **options: Any,
) -> None:
    """Write a dataset or a task of it as tars, or a task as a folder that existing code reads.

    Pictures keep their bytes, each checked by its hash, and only those of the task are fetched.
    """
    words, opened = protocol_of(protocol), open_dataset(dataset)
    of_task: dict[str, Any] = {"base": base, "on_empty": on_empty}
    if form == TARS:
        tasks = {_config_name(words): task(opened, words, **of_task)} if words else {}
        if base and not words:  # a whole base
            configs = (*configs, base)
        options |= {"configs": configs, "tasks": tasks, "shard_bytes": int(shard_mb * (1 << 20))}
        return _export_tars(opened, out, quiet, options)
    if out is None:
        raise InputError(f"--to {form} needs --out, the folder to make")
    if configs:
        raise InputError(
            f"--config is for tars: name the canonical split, as in export {dataset} {configs[0]}"
        )
    chosen = task(opened, words, **of_task)
    total = len(np.unique(np.concatenate([rows.indices for rows in chosen.sets.values()])))
    with progress("export", total, "picture", quiet=quiet) as bar:
        exported = export(chosen, form, out, on_images=bar.update, **options)
    return _print_folder(exported)


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


def _export_tars(opened: OpenDataset, out: Path | None, quiet: bool, options: dict[str, Any]) -> None:
    out = out or Path("build") / NAMESPACE / f"{opened.manifest.name}_wds"
    parts = [opened.manifest.splits_of(name) for name in options["configs"]]
    total = sum(split.rows for splits in parts for split in splits.values())
    total += sum(len(rows) for chosen in options["tasks"].values() for rows in chosen.sets.values())
    with progress("export", total or opened.manifest.rows, "sample", quiet=quiet) as bar:
        folder = export_tars(opened, out, on_samples=bar.update, **options)
    manifest = Manifest.read(folder)
    for config in manifest.bases:
        print(f"{config.name}: {', '.join(f'{name} {size.rows:,}' for name, size in config.splits.items())}")
    tars = sum(map(is_tar, manifest.files))
    print(f"{folder}: {tars} tars, {manifest.bytes / 1e6:.1f} MB, content {manifest.content_id[:16]}")


def _config_name(words: Protocol | str) -> str:
    """Name a task among tars: a protocol as its configs are named, a frozen file by its stem."""
    if isinstance(words, str):
        return re.sub(r"[^A-Za-z0-9_]+", "_", words.removesuffix(".parquet").rpartition("/")[2])
    return words.config_name
