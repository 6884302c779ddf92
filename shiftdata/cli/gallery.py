"""`shiftdata gallery`: pages of datasets as files."""

from __future__ import annotations

from pathlib import Path

import click

from shiftdata.cli.verbs import GOES_ON, begin_bar, quiet_option, verb
from shiftdata.data.loading.plain_datasets import list_datasets
from shiftdata.errors import InputError


@verb(
    """
    examples:
      shiftdata gallery                                    every dataset on this machine, into build/gallery
      shiftdata gallery sma_glyphs cns_glyphs --out site   two of them
      shiftdata gallery sma_glyphs --each 16               16 examples of each group

    Open index.html, or put the folder on any web server, Pages or Spaces: there is nothing to install. The
    same pages of `shiftdata serve` show all examples of a group, and the sets of any protocol.
    """,
    interrupted=GOES_ON,
)
@click.argument("datasets", nargs=-1, metavar="[DATASET]...", help="[default: all on this machine]")
@click.option("--out", type=Path, default=Path("build/gallery"), metavar="FOLDER", help="Where the pages go.")
@click.option(
    "--each", type=click.IntRange(1, 500), default=8, help="Examples or trajectories of each group."
)
@quiet_option
def command(datasets: tuple[str, ...], out: Path, each: int, quiet: bool) -> None:
    """Make a gallery: a page a dataset with every group to look at, its tasks, distributions and card.

    Pages that are up to date are not made again.
    """
    from shiftdata.serve.pages.site import write_gallery

    chosen = [*datasets] if datasets else [str(dataset.where) for dataset in list_datasets()]
    if not chosen:
        raise InputError("no dataset on this machine: build or fetch one, or name one (see `shiftdata list`)")

    front = write_gallery(chosen, out, each=each, begin=begin_bar(quiet=quiet))
    print(f"{front}: {len(chosen):,} dataset{'s' if len(chosen) > 1 else ''}")
