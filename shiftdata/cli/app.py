"""The command line of the consumers: `shiftdata <verb>`."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence

from shiftdata.cli.export import add_verb as add_export
from shiftdata.cli.fetch import add_verb as add_fetch
from shiftdata.cli.published import add_verb as add_published
from shiftdata.cli.serve import add_verb as add_serve
from shiftdata.cli.task import add_verb as add_task
from shiftdata.errors import ShiftdataError

EPILOG = """examples:
  shiftdata list
  shiftdata info sma_emoji
  shiftdata load sma_emoji gf_k8_mu10 --split train --rows 3
  shiftdata task sma_emoji group-fairness k=8 mu=0.1
  shiftdata published nico++ 2
  shiftdata published --check
  shiftdata verify sma_emoji
  shiftdata fetch sma_emoji --select style=leaves,rust
  shiftdata verify https://mirror.example.org/shift/sma_emoji
  shiftdata export sma_emoji --to imagefolder --out folders/sma_emoji
  shiftdata serve build/shift

Datasets are looked for in $SHIFTDATA_HOME, ./build/shift and ./shift, then on the Hub.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb; give the exit status: 0 well, 1 problems found or an error, 130 interrupted."""
    return run(_parser(), arguments, interrupted="interrupted")


def run(parser: argparse.ArgumentParser, arguments: Sequence[str] | None, *, interrupted: str) -> int:
    """Parse the arguments, run the verb that they name, and turn errors into a line and a status."""
    options = parser.parse_args(arguments)
    try:
        status: int = options.run(options)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141  # as a shell says of what a closed pipe ended
    except (ShiftdataError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(interrupted, file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="shiftdata",
        description="Distribution-shift datasets: find, describe, fetch, load, check, export and serve them.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = parser.add_subparsers(required=True, metavar="VERB")

    verb = verbs.add_parser("list", help="the datasets on this machine")
    verb.set_defaults(run=_list)

    verb = verbs.add_parser("info", help="what a dataset is: splits, configs, classes, licence")
    verb.add_argument("dataset", help="a name, shift/<name>, or a folder")
    verb.set_defaults(run=_info)

    verb = verbs.add_parser("load", help="stream the first rows of a config, as `load_dataset` gives them")
    verb.add_argument("dataset", help="a name, shift/<name>, or a folder")
    verb.add_argument("config", nargs="?", help="a config from `info` (default: the dataset's default)")
    verb.add_argument("--split", default="train", help="train, validation or test (default: train)")
    verb.add_argument("--rows", type=int, default=3, help="how many (default: 3)")
    verb.set_defaults(run=_load)

    verb = verbs.add_parser("verify", help="check a dataset against its manifest, wherever it is")
    verb.add_argument(
        "dataset", help="a name, shift/<name>, a folder, or a URL (https://, hf://, s3://, ...)"
    )
    verb.add_argument("--files-only", action="store_true", help="hashes of files, not rows and images")
    verb.add_argument("--all", action="store_true", help="print every problem, not the first 10 of a kind")
    verb.set_defaults(run=_verify)
    add_task(verbs)
    add_published(verbs)
    add_export(verbs)
    add_serve(verbs)
    add_fetch(verbs)
    return parser


def _list(options: argparse.Namespace) -> int:
    from shiftdata.loading.plain_datasets import list_datasets
    from shiftdata.places.search import search_path

    found = list_datasets()
    width = max((len(one.name) for one in found), default=0) + 2
    for one in found:
        size = f"{one.rows:>10,} rows {one.bytes / 1e6:>9,.1f} MB"
        print(f"{one.name:<{width}}{one.family:<12}{size}  {one.where}")
        print(f"{'':<{width}}{one.license}")
    if not found:
        where = ", ".join(map(str, search_path()))
        print(f"no dataset in {where}: set SHIFTDATA_HOME, or build one (see README)")
    return 0


def _info(options: argparse.Namespace) -> int:
    from shiftdata.loading.plain_datasets import info

    manifest = info(options.dataset)
    nuisance = manifest.roles.nuisance
    print(f"{manifest.title} ({manifest.name} {manifest.version}, {manifest.family})")
    print(manifest.summary)
    if manifest.part is not None:
        print(f"A part of content {manifest.part.content_id[:16]}: its README.md says which.")
    for name in manifest.config_names():
        splits = manifest.splits_of(name)
        counts = ", ".join(f"{split} {record.rows:,}" for split, record in splits.items())
        print(f"  {name + (' (default)' if name == manifest.default_base else ''):<24}{counts}")
    print(f"labels ({len(manifest.labels)}): {', '.join(manifest.labels)}")
    print(f"{nuisance}s ({len(manifest.nuisances)}): {', '.join(manifest.nuisances)}")
    if len(manifest.severities) > 1:
        print(f"severities: {', '.join(f'{step:g}' for step in manifest.severities)}")
    print(f"licence: {manifest.license}")
    print(f"recipe {manifest.recipe_id[:16]}, content {manifest.content_id[:16]}")
    return 0


def _load(options: argparse.Namespace) -> int:
    from shiftdata.loading.plain_datasets import load_dataset

    data = load_dataset(options.dataset, options.config, split=options.split, streaming=True)
    for row in data.take(options.rows):
        print({name: value for name, value in row.items() if value is not None})
    # A stream that is left early leaves Arrow threads reading; one that still reads when the interpreter ends
    # aborts it (apache/arrow#45214), so they get the time to finish.
    time.sleep(1)
    return 0


def _verify(options: argparse.Namespace) -> int:
    from tqdm import tqdm

    from shiftdata.loading.plain_datasets import info
    from shiftdata.verifying import shortened, verify

    deep = not options.files_only
    manifest = info(options.dataset)
    total_bytes = sum(record.bytes for record in manifest.files.values())
    total_rows = sum(split.rows for base in manifest.bases for split in base.splits.values())
    notes: list[str] = []
    with (
        tqdm(total=total_bytes, desc="files", unit="B", unit_scale=True) as of_bytes,
        tqdm(total=total_rows, desc="rows", unit="row", unit_scale=True, disable=not deep) as of_rows,
    ):
        problems = verify(
            options.dataset,
            deep=deep,
            on_bytes=of_bytes.update,
            on_rows=of_rows.update,
            on_note=notes.append,
        )
    most = len(problems) if options.all else 10
    for line in [*notes, *shortened(problems, most, hint="--all shows them")]:
        print(line)
    print(f"{len(problems):,} problems" if problems else "all well")
    return 1 if problems else 0
