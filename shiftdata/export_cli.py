"""`shiftdata export`: a dataset in another form, for other readers."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

__all__ = ["add_verb"]


def add_verb(verbs: Any) -> None:
    """Add the verb to the command line."""
    verb = verbs.add_parser("export", help="write a dataset in another form: tars for `webdataset`")
    verb.add_argument(
        "dataset", help="a name, shift/<name>, a folder, or a URL (https://, hf://, s3://, ...)"
    )
    verb.add_argument("--to", required=True, choices=["webdataset"], help="the form")
    verb.add_argument("--out", type=Path, help="the folder to make (default: build/shift/<name>_wds)")
    verb.add_argument("--base", help="only this base (default: all of them)")
    verb.add_argument("--shard-mb", type=float, default=256, help="size of a tar at most (default: 256 MiB)")
    verb.add_argument("--overwrite", action="store_true", help="replace an earlier export of other content")
    verb.add_argument("--quiet", action="store_true", help="no progress bar")
    verb.set_defaults(run=run_export)


def run_export(options: argparse.Namespace) -> int:
    """Export, and say what was made."""
    from tqdm import tqdm

    from shiftdata.loading import info
    from shiftdata.manifest import Manifest
    from shiftdata.places import NAMESPACE
    from shiftdata.wds import export

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
