"""`shiftdata export`: a dataset in another form, for other readers."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shiftdata.errors import InputError

if TYPE_CHECKING:
    from shiftdata.exporting.folders import Exported

TARS = "webdataset"
#: Tars, and the names in `exporting.folders.LAYOUTS`, whose import would load pyarrow for every verb.
FORMS = {
    TARS: "tars of whole bases, for training from front to back",
    "imagefolder": "<set>/<label>/<key>.jpg: torchvision's ImageFolder, `datasets`",
    "wilds": "<name>_v1.0/metadata.csv with splits, labels and groups: WILDS",
    "domainbed": "<domain>/<label>/<key>.jpg, all sets together: DomainBed",
    "balancinggroups": "metadata_<name>.csv with id, filename, split, y, a: BalancingGroups, SMA",
    "lists": "<set>.txt and lists/<domain>_<set>.txt of `path label` lines: TLlib, DomainBed-v2, NICO++",
}
EPILOG = """forms:
{forms}

A folder holds a task: the canonical train, validation and test of the default base if nothing else is said.
Pictures are the dataset's own bytes, checked by hash, and only the task's are fetched.

examples:
  shiftdata export sma_emoji --to imagefolder --out folders/sma_emoji
  shiftdata export sma_emoji --to wilds --config gf_k8_mu10 --out folders/wilds
  shiftdata export dom_emoji --to domainbed --out folders/domainbed/dom_emoji --pool folders/.pool
  shiftdata export sma_emoji --to balancinggroups --protocol group-fairness k=4 mu=0.1 --out folders/groups
  shiftdata export sma_emoji --to balancinggroups --protocol uda source=noise_clouds target=brick \\
      --sets train=source_train test=target_test --out folders/uda
  shiftdata export https://mirror.example.org/shift/sma_emoji --to lists --frozen mine.parquet --out folders/l
"""


def add_verb(verbs: Any) -> None:
    """Add the verb to the command line."""
    forms = "\n".join(f"  {name:<17}{about}" for name, about in FORMS.items())
    verb = verbs.add_parser(
        "export",
        help="write a dataset in another form: tars, or folders that existing code reads",
        usage="shiftdata export DATASET --to FORM --out FOLDER [options]",
        epilog=EPILOG.format(forms=forms),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verb.add_argument(
        "dataset", help="a name, shift/<name>, a folder, or a URL (https://, hf://, s3://, ...)"
    )
    verb.add_argument("--to", required=True, choices=list(FORMS), help="the form, see below")
    verb.add_argument(
        "--out", type=Path, help="the folder to make (tars: build/shift/<name>_wds if not given)"
    )
    verb.add_argument("--base", help="this base (default: the default base; tars: all of them)")
    verb.add_argument(
        "--pool", type=Path, help="keep each picture once in this folder, and link folders to it"
    )
    verb.add_argument("--overwrite", action="store_true", help="replace an earlier export of other content")
    verb.add_argument("--quiet", action="store_true", help="no progress bar")
    rows = verb.add_argument_group("which rows a folder has")
    rows.add_argument("--config", help="a canonical split or base that `shiftdata info` lists")
    rows.add_argument(
        "--protocol",
        nargs="+",
        default=[],
        metavar=("NAME", "key=value"),
        help="a protocol with its parameters, as `shiftdata task` takes it",
    )
    rows.add_argument("--frozen", metavar="FILE", help="a task that `shiftdata task --freeze` wrote")
    rows.add_argument("--on-empty", default="error", choices=["error", "report"], help="a group without rows")
    rows.add_argument(
        "--sets", nargs="+", metavar="NEW=SET", help="only these sets, under these names: train=source_train"
    )
    tars = verb.add_argument_group("how tars are cut")
    tars.add_argument("--shard-mb", type=float, default=256, help="size of a tar at most (default: 256 MiB)")
    verb.set_defaults(run=run_export)


def run_export(options: argparse.Namespace) -> int:
    """Export, and say what was made."""
    if options.to == TARS:
        return _export_tars(options)
    from tqdm import tqdm

    from shiftdata.cli.task import composed
    from shiftdata.exporting.folders import chosen_task, export

    if options.out is None:
        raise InputError(f"--to {options.to} needs --out, the folder to make")
    task = chosen_task(
        options.dataset,
        config=options.config,
        base=options.base,
        protocol=options.frozen or composed(options.protocol),
        on_empty=options.on_empty,
    )
    sets = _pairs(options.sets) if options.sets else None
    taken = sets.values() if sets else task.sets
    total = len({row for name in taken if name in task.sets for row in task.sets[name].indices.tolist()})
    with tqdm(total=total, desc="export", unit="picture", unit_scale=True, disable=options.quiet) as bar:
        made = export(
            task,
            options.to,
            options.out,
            sets=sets,
            pool=options.pool,
            overwrite=options.overwrite,
            on_images=bar.update,
        )
    _tell(made)
    return 0


def _pairs(words: list[str]) -> dict[str, str]:
    """`train=source_train test` as the new name and the task's name of each set."""
    pairs = [word.partition("=") for word in words]
    found = {new: old or new for new, _, old in pairs}
    if len(found) < len(pairs) or "" in found:
        raise InputError(f"--sets gives each set a name of its own, as train=source_train; got {words}")
    return found


def _tell(made: Exported) -> None:
    record, images = made.record, made.images
    counts = ", ".join(f"{name} {told['examples']:,}" for name, told in record.sets.items())
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


def _export_tars(options: argparse.Namespace) -> int:
    from tqdm import tqdm

    from shiftdata.exporting.webdataset import export
    from shiftdata.format.manifest import Manifest
    from shiftdata.loading.plain_datasets import info
    from shiftdata.places.search import NAMESPACE

    chosen = [name for name in ("config", "protocol", "frozen", "sets", "pool") if getattr(options, name)]
    if chosen:
        raise InputError(f"--{' --'.join(chosen)}: tars hold whole bases; choose one by --base")
    manifest = info(options.dataset)
    bases = [manifest.base(options.base)] if options.base else manifest.bases
    total = sum(split.rows for base in bases for split in base.splits.values())
    with tqdm(total=total, desc="export", unit="sample", unit_scale=True, disable=options.quiet) as bar:
        folder = export(
            options.dataset,
            options.out or Path("build") / NAMESPACE / f"{manifest.name}_wds",
            base=options.base,
            shard_bytes=int(options.shard_mb * (1 << 20)),
            overwrite=options.overwrite,
            on_samples=bar.update,
        )
    made = Manifest.read(folder)
    size = sum(record.bytes for record in made.files.values())
    tars = sum(path.endswith(".tar") for path in made.files)
    print(f"{folder}: {tars} tars, {size / 1e6:.1f} MB, content {made.content_id[:16]}")
    return 0
