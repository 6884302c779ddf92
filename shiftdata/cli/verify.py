"""`shiftdata verify`: a dataset against its manifest."""

from __future__ import annotations

import click

from shiftdata.cli.verbs import dataset_argument, progress, quiet_option, verb
from shiftdata.data.dataset import open_dataset
from shiftdata.data.verifying import shortened
from shiftdata.evaluation.verify import verify


@verb("""
    examples:
      shiftdata verify sma_glyphs
      shiftdata verify s3://lab-data/shift/sma_glyphs --files-only
      shiftdata verify sma_glyphs --key lab.pub             the manifest must be signed by this key
""")
@dataset_argument
@click.option("--files-only", is_flag=True, help="Compare the hashes of files, and read no rows or images.")
@click.option("--against", metavar="PLACE", help="Compare with the same dataset at another place.")
@click.option("--key", metavar="KEY", help="A public key, or its file, that must have signed the manifest.")
@click.option("--all", "every", is_flag=True, help="Print every problem, not the first 10 of a sort.")
@quiet_option
def command(
    dataset: str, files_only: bool, against: str | None, key: str | None, every: bool, quiet: bool
) -> int:
    """Check a dataset against its manifest: files by hash, rows and images by content.

    Ends with status 1 if there are problems. At a URL, each file is downloaded once and not kept.
    """
    opened = open_dataset(dataset)
    notes: list[str] = []
    with (
        progress("files", opened.manifest.bytes, "B", quiet=quiet) as of_bytes,
        progress("rows", opened.manifest.rows, "row", quiet=quiet or files_only) as of_rows,
    ):
        problems = verify(
            opened,
            deep=not files_only,
            against=against,
            key=key,
            on_bytes=of_bytes.update,
            on_rows=of_rows.update,
            on_note=notes.append,
        )
    most = len(problems) if every else 10
    for line in [*notes, *shortened(problems, most, hint="--all shows them")]:
        print(line)
    print(f"{len(problems):,} problems" if problems else "all well")
    return 1 if problems else 0
