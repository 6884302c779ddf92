"""`python -m builders progress`: how far a build is, and each process that takes part in it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from builders.make.build import spools_of
from builders.make.progress import ENDED, PHASES, STOPPED, Status, statuses
from builders.make.workshop import Workshop
from builders.objects import writable
from builders.recipe_files import load_recipe
from builders.spool import Spool
from shiftdata.cli.verbs import verb
from shiftdata.data.format.manifest import FILE_NAME, Manifest

WIDE, NARROW = 24, 10  # bars
COLUMNS = f"{{:>4}}  {{:<22}}{{:<10}}{{:>10}}  {{:<{NARROW + 6}}}{{:>9}}{{:>10}}{{:>10}}"
HEADER = COLUMNS.format("rank", "process", "state", "made", "own share", "per s", "seen", "left").rstrip()
COLOURS = {"lost": "red", STOPPED: "red", "wait": "yellow", ENDED: "bright_black", "not seen": "bright_black"}


@verb("""
    examples:
      python -m builders progress sma_emoji
      python -m builders progress sma_emoji --watch            again and again, until nobody is at work
      python -m builders progress sma_emoji --spool s3://bucket/spools
""")
@click.argument("recipe", help="A name from `list`, or the path of a .py file that assigns RECIPE.")
@click.option("--out", type=Path, default="build", metavar="FOLDER", help="As for `build`.")
@click.option("--spool", metavar="PLACE", help="As for `build`.")
@click.option("--watch", is_flag=True, help="Show it every few seconds, until nobody is at work.")
def command(recipe: str, out: Path, spool: str | None, watch: bool) -> None:
    """Show how far a build is: all phases, and each process that takes part in it."""
    name = load_recipe(recipe).name if recipe.endswith(".py") else recipe
    while True:
        known = list(_at_work(spools_of(spool, out, name)))
        text = "\n\n".join(_table(name, every) for every in known) or _nothing(Workshop(out, name))
        if watch:
            click.clear()
        click.echo(text)
        if not watch or not any(one.is_at_work for every in known for one in every):
            return
        time.sleep(2)


def _at_work(place: str) -> Iterator[list[Status]]:
    """The processes of each spool that is in use."""
    for folder in sorted(writable(place).folders()):
        spool = Spool(f"{place}/{folder}")
        if folder.startswith("spool-") and spool.is_open():
            yield statuses(spool)


def _nothing(workshop: Workshop) -> str:
    finished = [folder for folder in (workshop.folder, workshop.tars) if (folder / FILE_NAME).is_file()]
    made = [f"{folder} is finished, with {Manifest.read(folder).rows:,} rows" for folder in finished]
    return f"{workshop.name}: nothing is being built; " + (
        ", ".join(made) or f"no dataset is in {workshop.out}"
    )


def _table(name: str, every: Sequence[Status]) -> str:
    """All phases that somebody is in, and a line for each process."""
    busy = [one for one in every if one.is_at_work]
    world = max((one.world for one in every), default=1)
    lines = [click.style(name, bold=True) + f": {len(busy)} of {world} processes at work"]
    for phase in PHASES:
        of_phase = [one for one in busy or every if one.phase == phase]
        if of_phase:
            lines.append(_line(phase, of_phase))
    if not busy:
        lines.append("Nobody is at work: run the build again, and it goes on where it stopped.")
    lines += ["", click.style(HEADER, bold=True)]
    for number in range(world):
        of_rank = [one for one in every if one.rank == number]
        last = sorted(of_rank, key=lambda one: one.seen)[-1:]
        lines += [_row(one) for one in [one for one in of_rank if one.is_at_work] or last]
        if not of_rank:
            lines.append(click.style(COLUMNS.format(number, "-", "not seen", *[""] * 5).rstrip(), dim=True))
    return "\n".join(lines)


def _line(phase: str, some: Sequence[Status]) -> str:
    done, total = max(one.done for one in some), max(one.total for one in some)
    rate = sum(one.rate for one in some)
    unit = some[0].unit
    if not total:
        return f"{phase:<7} {done:,} {unit}"
    left = f", {_time((total - done) / rate)} left" if rate and done < total else ""
    return f"{phase:<7}{_bar(done, total, WIDE)}  {done:,} of {total:,} {unit}, {rate:,.1f} a second{left}"


def _row(one: Status) -> str:
    state = "lost" if one.is_lost else one.end or one.phase
    helps = state == "render" and one.own >= one.own_total
    left = (one.own_total - one.own) / one.rate if state == "render" and one.rate and not helps else None
    row = COLUMNS.format(
        one.rank,
        f"{one.host[:14]}:{one.pid}",
        "helps" if helps else state,
        f"{sum(one.made.values()):,}",
        _bar(one.own, one.own_total, NARROW),
        f"{one.rate:,.1f}" if one.is_at_work else "",
        _time(max(0.0, time.time() - one.seen)),
        "" if left is None else _time(left),
    )
    return click.style(row.rstrip(), fg=COLOURS.get(state), dim=state == ENDED)


def _bar(done: int, total: int, width: int) -> str:
    share = min(1.0, done / total) if total else 1.0
    full = int(share * width)
    return "█" * full + "░" * (width - full) + f" {share:>4.0%}"


def _time(seconds: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
