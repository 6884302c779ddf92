"""`shiftdata import`: what authors published about their runs, into a folder of records."""

from __future__ import annotations

from pathlib import Path

import click

from shiftdata.bench.importing import FORMATS, import_records
from shiftdata.cli.verbs import progress, quiet_option, verb


@verb("""
    examples:
      shiftdata import domainbed DomainBed/domainbed/misc/test_sweep_data
      shiftdata import rlsbench logs_consistent --out runs/rlsbench
      shiftdata import cns-bench results.zip
      shiftdata import cifar-10.1 CIFAR-10.1               a clone of the authors' repository
      shiftdata report runs/cns-bench                      their figures, next to those that the paper prints

    The same files give the same records. Nothing is trained, and no leaderboard takes them.
""")
@click.argument("form", metavar="FORMAT", type=click.Choice(list(FORMATS)), help=f"{', '.join(FORMATS)}.")
@click.argument("path", type=Path, help="The authors' folder, or a zip of it.")
@click.option("--out", type=Path, metavar="FOLDER", help="Where the records go.  [default: runs/<format>]")
@quiet_option
def command(form: str, path: Path, out: Path | None, quiet: bool) -> None:
    """Read what authors published about their runs into records: imported, not rerun."""
    out = out or Path("runs") / form
    with progress(f"import {form}", None, " files", quiet=quiet) as bar:
        records = import_records(form, path, out, bar.update)
    print(f"{out}: {len(records):,} runs of {len(records.studies()):,} studies")
    print(f"shiftdata report {out} shows them")
