"""`shiftdata raw`: the raw datasets, how to get them, and whether they are whole."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TextIO

import click
from tqdm import tqdm

from builders.cli.raw_texts import HOW, by_hand, description, result, size_text
from builders.raw.album import RawAlbum
from builders.raw.checking import check
from builders.raw.getting import Progress, get
from builders.raw.sma import MetaAlbum
from builders.raw.sources import FACTS, Source, source, sources
from builders.recipe_files import load_recipe, recipe_names
from shiftdata.cli.verbs import GOES_ON, Verb, progress, quiet_option, verb
from shiftdata.errors import InputError
from shiftdata.files import absolute

ROW = "{:<22}{:>10}  {:<34}{:<20}{:<14}{}"
META_ALBUM = "meta_album_"
WIDE = 33  # of a licence


class Raw(Verb, click.Group):
    """Three verbs under one name."""


command = Raw(
    "raw",
    help="Raw public datasets: which there are, how to get them, and whether one is whole.",
    epilog="""
    examples:
      shiftdata raw list
      shiftdata raw get pacs
      shiftdata raw check pacs --raw /data/PACS.zip
    """,
)
name_argument = click.argument("name", help="A raw dataset, from `raw list`.")
raw_option = click.option(
    "--raw", type=Path, metavar="PLACE", help="Where it is. [default: build/raw/<name>]"
)


@verb("""
    examples:
      shiftdata raw list             all of them
      shiftdata raw list pacs        everything that is known of one
""")
@click.argument("name", required=False, help="Only this one, with all that is known of it.")
def list_command(name: str | None) -> None:
    """Show the raw datasets: size, licence, how to get each, and whether it is on this disk.

    Sizes, licences and ways are facts of a day that is named; no network is used.
    """
    if name:
        print(*description(source(name)), sep="\n")
        return
    print(ROW.format("name", "size", "licence", "how to get it", "on this disk", "read").rstrip())
    for entry in sources().values():
        licence = entry.license if len(entry.license) <= WIDE else f"{entry.license[: WIDE - 3]}..."
        state = "yes" if entry.place.exists() else "no"
        way = HOW[entry.ways[0].how]
        row = ROW.format(entry.name, size_text(entry.size), licence, way, state, entry.read_on)
        print(row.rstrip())
    print(f"\nFacts of {FACTS}, when no address was opened. `raw list NAME`: files, terms, ways, counts.")
    print("read: on real files, on a part of them, or on a replica only: a tree that we made.")


@verb(
    """
    examples:
      shiftdata raw get pacs                    says what to do by hand
      shiftdata raw get domainnet --accept      downloads it, after you have read its terms
      shiftdata raw get pacs --way hub --accept somebody else's copy on the Hub
    """,
    interrupted=GOES_ON,
)
@name_argument
@raw_option
@click.option("--way", type=click.Choice([*HOW]), help="Another way than the first of `raw list NAME`.")
@click.option("--accept", is_flag=True, help="You have read the licence and the terms, and accept them.")
@quiet_option
def get_command(name: str, raw: Path | None, way: str | None, accept: bool, quiet: bool) -> int:
    """Download a raw dataset where that may be done; for the others, say what to do by hand.

    A download that was cut goes on when the same command is run again. Files are compared with the known
    sizes and hashes.
    """
    dataset = source(name)
    folder = absolute(raw) if raw else dataset.place
    chosen = dataset.way(way)
    if chosen.how == "hand":
        print(*by_hand(dataset, chosen, folder), sep="\n")
        return 1
    with ExitStack() as stack:
        get(dataset, folder, how=way, accepted=accept, progress=_bars(stack, "B", quiet), say=tqdm.write)
    where = f" --raw {folder}" if raw else ""
    print(f"{dataset.name} is in {folder}. Next: shiftdata raw check {dataset.name}{where}")
    return 0


@verb("""
    examples:
      shiftdata raw check pacs
      shiftdata raw check pacs --raw /data/PACS.zip
      shiftdata raw check pacs --read --verbose     read every example, and name every odd file
      shiftdata raw check pacs --report pacs.json   a line that you can send us
""")
@name_argument
@raw_option
@click.option(
    "--read",
    is_flag=True,
    help="Read every picture, text or row, and compare hashes: finds damage and copies.",
)
@click.option("--verbose", is_flag=True, help="Name every odd file.")
@click.option(
    "--report",
    "line",
    type=click.File("w", encoding="utf-8"),
    metavar="FILE",
    help="Write a line of JSON to send us: counts, a hash of names and sizes, no content. `-` prints it.",
)
@quiet_option
def check_command(
    name: str, raw: Path | None, read: bool, verbose: bool, line: TextIO | None, quiet: bool
) -> int:
    """Check a raw dataset before it is built: files, examples of each domain and class, odd files.

    Ends with status 1 where it is not what papers, lists or code say. What the facts allow is a note.
    """
    dataset = source(name)
    place = absolute(raw) if raw else dataset.place
    album = _album(dataset, name)
    with ExitStack() as stack:
        report = check(dataset, album, place, read=read, progress=_bars(stack, "", quiet))
    print(*result(dataset, name, report, place, verbose=verbose), sep="\n")
    if line:  # never the path of somebody's own file
        print(
            json.dumps(report.line(name if name in dataset.recipes else dataset.name, read=read)), file=line
        )
    return 1 if report.problems else 0


for _name, _command in {"list": list_command, "get": get_command, "check": check_command}.items():
    command.add_command(_command, _name)


def _bars(stack: ExitStack, unit: str, quiet: bool) -> Progress:
    """Return a function that opens a progress bar; bars stay until all have ended."""

    def begin(title: str, total: int) -> Callable[[int], object]:
        return stack.enter_context(progress(title, total, unit, quiet=quiet)).update

    return begin


def _album(dataset: Source, name: str) -> RawAlbum:
    """The album of the recipe that is named, or of the first that reads a raw dataset."""
    if dataset.name.startswith(META_ALBUM):  # all classes: recipes take the largest
        layout = MetaAlbum(set=dataset.name.removeprefix(META_ALBUM).upper(), largest=sys.maxsize)
        return RawAlbum(name=dataset.name, layout=layout, license=dataset.license, attribution=dataset.title)
    own = [name] if name.endswith(".toml") else []
    recipes = own or [recipe for recipe in dataset.recipes if recipe in recipe_names()]
    if not recipes:
        raise InputError(f"no recipe reads {dataset.name}: there is nothing to check it with")
    album = load_recipe(name if name in recipes else recipes[0]).album
    if not isinstance(album, RawAlbum):
        raise InputError(f"the recipe {recipes[0]} does not read a raw dataset")
    return album
