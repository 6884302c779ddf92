"""`shiftdata build`: from a recipe to a dataset."""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import click

from builders.cli.check import print_warnings
from builders.filters import Stages, judged_rows, slider_report
from builders.make.build import build, spools_of
from builders.make.dropped import NO_ITEM, read_report, report_path
from builders.make.overview import overview
from builders.make.progress import statuses
from builders.make.workshop import Workshop
from builders.recipe_files import load_recipe
from shiftdata.cli.verbs import GOES_ON, asked_rank, quiet_option, verb
from shiftdata.data.executors import Ray
from shiftdata.data.format.manifest import FILE_NAME, Manifest
from shiftdata.data.format.records import by_reason
from shiftdata.files import absolute
from shiftdata.untrusted.parquet import read_parquet

MOST_NAMES = 10  # of groups without rows
#: Seconds between two views of --watch.
LOOK_INTERVAL = 2.0


@verb(
    """
    examples:
      shiftdata build sma_glyphs                       every base, into build/shift/sma_glyphs
      shiftdata build sma_glyphs --bases content,mini  only these
      shiftdata build sma_glyphs --ray                 on every node of a running Ray cluster
      shiftdata build my_recipe.py --out /data         your own recipe: a file that assigns RECIPE
      shiftdata build pacs --raw /data/PACS            from the authors' files, a folder or an archive
      shiftdata build sma_glyphs --rank 3 --world 8    one of 8 processes that share the work
      shiftdata build sma_glyphs --slurm               the same, in a Slurm array or by srun
      shiftdata build sma_glyphs --status --watch      how far all of them are; starts nothing
    """,
    interrupted=GOES_ON,
)
@click.argument("recipe", help="A name from `recipes`, or a .py file that assigns RECIPE, or a .toml file.")
@click.option("--out", type=Path, default="build", metavar="FOLDER", help="Where shift/<name> is made.")
@click.option("--raw", type=Path, metavar="PLACE", help="The raw dataset. [default: build/raw/<name>]")
@click.option("--bases", metavar="NAME,...", help="Only these and the default base. [default: all]")
@click.option("--workers", type=click.IntRange(min=1), metavar="N", help="Processes. [default: one a core]")
@click.option("--ray", metavar="[ADDRESS]", is_flag=False, flag_value="auto", help="On a Ray cluster.")
@click.option("--rank", type=int, metavar="R", help="Which of --world processes this is, from 0 on.")
@click.option("--world", type=int, metavar="W", help="How many processes share the work.")
@click.option("--slurm", is_flag=True, help="Take rank and world from Slurm.")
@click.option("--wait", is_flag=True, help="As a rank: help another one to pack. [default: end]")
@click.option("--render-only", is_flag=True, help="Fill the spool, and leave packing to a later build.")
@click.option("--spool", metavar="PLACE", help="Folder or URL for rendered blocks. [default: in --out]")
@click.option("--replace", is_flag=True, help="Overwrite the dataset of another recipe.")
@click.option("--keep-spool", is_flag=True, help="Keep the rendered blocks after packing.")
@click.option("--status", is_flag=True, help="Build nothing: show what all processes have made so far.")
@click.option("--watch", is_flag=True, help="Show it again and again, until the dataset is finished.")
@quiet_option
def command(
    recipe: str,
    raw: Path | None,
    bases: str | None,
    rank: int | None,
    world: int | None,
    slurm: bool,
    wait: bool,
    ray: str | None,
    status: bool,
    watch: bool,
    **options: Any,
) -> None:
    """Build a dataset from a recipe.

    A build that was stopped goes on when the same command is run again, and ends in the same bytes. Several
    may run at once, on machines that share --out: see docs/cluster.md.
    """
    if status or watch:
        _print_status(recipe, options["out"], options["spool"], watch=watch)
        return
    part = asked_rank(rank, world, slurm)
    recipe = f"{recipe}={absolute(raw)}" if raw else recipe
    options |= {"bases": bases.split(",") if bases else None, "wait": wait or part is None}
    options["executor"] = Ray(ray, options["workers"]) if ray else None
    folder = build(recipe, rank=part, **options)
    if (folder / FILE_NAME).is_file():
        _print_built(folder, recipe, options["out"])


def _print_status(recipe: str, out: Path, spool: str | None, *, watch: bool) -> None:
    """Print what the signs of life say of a build; reads neither raw data nor rendered blocks."""
    name = load_recipe(recipe).name
    spools, folder = spools_of(spool, out, name), Workshop(out, name).folder
    were_there = False
    while True:
        signs = statuses(spools)
        is_over = not any(sign.is_at_work for sign in signs) and (
            (folder / FILE_NAME).is_file() or (were_there and not signs)
        )
        lines = overview(signs)
        if is_over:
            lines = [*lines, f"finished: {folder}"]
        elif not signs:
            lines = [f"no process has left a sign of life in {spools}: see --out and --spool"]
        if watch:
            click.clear()
        print("\n".join(lines), flush=True)
        if is_over or not watch:
            return
        were_there |= bool(signs)
        time.sleep(LOOK_INTERVAL)


def _print_built(folder: Path, recipe: str, out: Path) -> None:
    manifest = Manifest.read(folder)
    for base in manifest.bases:
        counts = ", ".join(f"{split} {record.rows:,}" for split, record in base.splits.items())
        print(f"{base.name}: {counts}")
        _print_empty_groups(folder, manifest, base.name)
        if f"filters/{base.name}.parquet" in manifest.files:
            _print_filters(folder, base.name, recipe)
    print_warnings(manifest)
    size = f"{len(manifest.files)} files, {manifest.bytes / 1e6:.1f} MB"
    print(f"{folder}: {size}, content {manifest.content_id[:16]}")
    _print_dropped(report_path(out, manifest.name))


def _print_dropped(report: Path) -> None:
    """Say what was left out, on the stream of the progress bars."""
    rows = read_report(report)
    bases = dict.fromkeys(base for base, _, _ in rows)
    for base in bases:
        where = "" if base == NO_ITEM else f" of {base}"
        for reason, count in by_reason(Counter(why for of, _, why in rows if of == base)).items():
            print(f"left out{where}: {count:,}: {reason}", file=sys.stderr)
    if rows:
        print(f"left out, each by name: {report}", file=sys.stderr)


def _print_empty_groups(folder: Path, manifest: Manifest, base: str) -> None:
    files = (folder / f"metadata/{base}").glob("*.parquet")
    present = {
        group for file in files for group in read_parquet(file, ["group"])["group"].unique().to_pylist()
    }
    present -= {None}
    groups = [f"{label}/{nuisance}" for label in manifest.labels for nuisance in manifest.nuisances]
    empty = [name for number, name in enumerate(groups) if number not in present]
    if present and empty:
        more = f" and {len(empty) - MOST_NAMES:,} more" if len(empty) > MOST_NAMES else ""
        named = ", ".join(empty[:MOST_NAMES]) + more
        print(f"{base}: {len(empty):,} of {len(groups):,} groups have no row: {named}")


def _print_filters(folder: Path, base: str, recipe: str) -> None:
    judged, filters = judged_rows(folder, base), load_recipe(recipe).filters
    print(Stages.of(judged))
    if filters is not None and filters.slider is not None:
        print(slider_report(judged, filters.slider.scorer.name, filters.slider.least))
