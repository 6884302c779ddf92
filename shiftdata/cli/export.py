"""`shiftdata export`: a dataset in another form, for other readers."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np

from shiftdata.cli.task import on_empty_option, protocol_of
from shiftdata.cli.verbs import GOES_ON, dataset_argument, progress, quiet_option, verb
from shiftdata.dataset import open_dataset
from shiftdata.errors import InputError
from shiftdata.exporting import folders, webdataset
from shiftdata.format.manifest import Manifest
from shiftdata.places.search import NAMESPACE
from shiftdata.tasks import OnEmpty

TARS = "webdataset"
FORMS = {TARS: "tars of whole bases, for training from front to back"}
FORMS |= {name: layout.about for name, layout in folders.LAYOUTS.items()}
LISTED = "\n".join(f"      {name:<17}{about}" for name, about in FORMS.items())


@verb(
    f"""
    forms:
{LISTED}

    examples:
      shiftdata export sma_emoji --to webdataset
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
@click.option("--config", metavar="NAME", help="Write a canonical split instead of a protocol's task.")
@click.option("--base", metavar="NAME", help="Only this base. [default: the default base; tars: all of them]")
@on_empty_option
@click.option("--sets", metavar="NEW=SET,...", help="Only these sets, under new names: train=source_train.")
@click.option("--pool", type=Path, metavar="FOLDER", help="Keep each picture once there, and link to it.")
@click.option("--shard-mb", default=256.0, metavar="MIB", help="Largest size of a tar.")
@click.option("--overwrite", is_flag=True, help="Replace an earlier export of other content.")
@quiet_option
def command(
    dataset: str,
    protocol: tuple[str, ...],
    form: str,
    out: Path | None,
    config: str | None,
    base: str | None,
    on_empty: OnEmpty,
    sets: str | None,
    pool: Path | None,
    shard_mb: float,
    overwrite: bool,
    quiet: bool,
) -> None:
    """Write a dataset as tars, or a task of it as a folder that existing code reads.

    Pictures keep their bytes, each checked by its hash, and only those of the task are fetched.
    """
    if form == TARS:
        given = {"PROTOCOL": protocol, "--config": config, "--sets": sets, "--pool": pool}
        if unfit := [name for name, value in given.items() if value]:
            raise InputError(f"{' and '.join(unfit)}: tars contain whole bases; choose one by --base")
        return _export_tars(dataset, out, base, shard_mb, overwrite, quiet)
    if out is None:
        raise InputError(f"--to {form} needs --out, the folder to make")
    task = folders.chosen_task(
        dataset, config=config, base=base, protocol=protocol_of(protocol), on_empty=on_empty
    )
    renamed = _renamed(sets) if sets else {}
    chosen = [task.sets[name].indices for name in renamed.values() or task.sets if name in task.sets]
    total = len(np.unique(np.concatenate(chosen))) if chosen else 0
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


def _export_tars(
    dataset: str, out: Path | None, base: str | None, shard_mb: float, overwrite: bool, quiet: bool
) -> None:
    opened = open_dataset(dataset)
    whole = opened.manifest
    out = out or Path("build") / NAMESPACE / f"{whole.name}_wds"
    size = int(shard_mb * (1 << 20))
    with progress("export", (whole.base(base) if base else whole).rows, "sample", quiet=quiet) as bar:
        folder = webdataset.export(
            opened, out, base=base, shard_bytes=size, overwrite=overwrite, on_samples=bar.update
        )
    made = Manifest.read(folder)
    tars = sum(path.endswith(".tar") for path in made.files)
    print(f"{folder}: {tars} tars, {made.bytes / 1e6:.1f} MB, content {made.content_id[:16]}")
