"""`shiftdata hide`: a public copy of a dataset, whose test labels stay with their owner."""

from __future__ import annotations

from pathlib import Path

import click

from builders.cli.check import built_argument, built_folder
from builders.make.hide import hide
from shiftdata.cli.verbs import STARTS_OVER, progress, quiet_option, verb


@verb(
    """
    examples:
      shiftdata hide birds --out public/birds --labels birds.labels.parquet
      shiftdata hide birds --out public/birds --labels birds.labels.parquet --test lodo_sketch
      shiftdata hide birds --out public/birds --labels birds.labels.parquet --nuisance
      shiftdata publish public/birds --to hf://
      shiftdata leaderboard submissions --data public --labels birds.labels.parquet

    Keep the file of labels, and publish only the copy. Hidden rows get keys and origins that only the file
    explains, and lose label, group, quantile and params; so do all rows of their origins. The same file given
    again makes the same copy.
    Whoever finds the same pictures elsewhere, with labels, has the labels.
    """,
    interrupted=STARTS_OVER,
)
@built_argument
@click.option("--out", type=Path, required=True, metavar="FOLDER", help="The public copy.")
@click.option("--labels", type=Path, required=True, metavar="FILE", help="What it hides, for you alone.")
@click.option(
    "--test", metavar="SPLIT", help="Hide the test of this canonical split.  [default: the split test]"
)
@click.option("--nuisance", is_flag=True, help="Hide also the nuisance: style, domain, shift.")
@quiet_option
def command(dataset: str, out: Path, labels: Path, test: str | None, nuisance: bool, quiet: bool) -> None:
    """Copy a built dataset without the labels of its test, which go to a file of yours."""
    folder = built_folder(dataset)
    with progress("hide", None, " rows", quiet=quiet) as bar:
        copied = hide(folder, out, labels, test=test, nuisance=nuisance, on_rows=bar.update)
    print(f"{copied.folder}: {copied.rows:,} rows without labels; {labels} has them")
    print(f"canonical splits: {', '.join(copied.splits) or 'none'}")
    for name, reason in copied.left_out.items():
        print(f"left out: {name}, as {reason}")
    if copied.revealed:
        print(f"warning: the attribution of {copied.revealed:,} hidden rows belongs to one label elsewhere")
    print(f"Next: shiftdata check {copied.folder}, then publish it")
