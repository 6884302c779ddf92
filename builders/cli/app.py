"""The command line of the producers: `python -m builders <verb>`, run from a checkout."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import pyarrow as pa
import pyarrow.parquet as pq

from builders.cli.publish import add_verb as add_publish
from builders.describe.card import CARDS
from builders.describe.contact_sheet import contact_sheet
from builders.describe.renderings import card_of_recipe
from builders.filters import Stages, judged_rows, slider_report
from builders.make.build import Format, build
from builders.make.check import check
from builders.recipe import Recipe, load_recipe, recipe_names
from shiftdata.cli import app as cli
from shiftdata.errors import InputError
from shiftdata.files import whole_file, write_text
from shiftdata.format.manifest import Manifest
from shiftdata.format.schema import SPLITS
from shiftdata.places import search as places
from shiftdata.verifying import shortened

EPILOG = """examples:
  python -m builders list
  python -m builders build sma_emoji                       every base, into build/shift/sma_emoji
  python -m builders build sma_emoji --bases content,mini  only these
  python -m builders build sma_emoji --format both         and its tars, into build/shift/sma_emoji_wds
  python -m builders build my_recipe.py --out /data        a recipe of your own: a file that assigns RECIPE
  python -m builders check sma_emoji
  python -m builders card my_recipe.py                     how its card will read
  python -m builders contact-sheet sma_emoji --output sheet.png
  python -m builders publish sma_emoji --to /srv/shift --dry-run

A build that was stopped, by whatever, goes on when it is started again and ends in the same bytes.
"""


MOST_NAMES = 10  # of groups without rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb; give the exit status: 0 well, 1 problems found or an error, 130 interrupted."""
    goes_on = "interrupted: run the same command again, it goes on where it stopped"
    return cli.run(_parser(), arguments, interrupted=goes_on)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m builders",
        description="Make distribution-shift datasets from recipes.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = parser.add_subparsers(required=True, metavar="VERB")

    verb = verbs.add_parser("list", help="the recipes of the house")
    verb.set_defaults(run=_list)

    verb = verbs.add_parser("build", help="build a dataset, or go on building it")
    verb.add_argument("recipe", help="a name from `list`, or the path of a .py file that assigns RECIPE")
    verb.add_argument(
        "--out", type=Path, default=Path("build"), help="where shift/<name> is made (default: build)"
    )
    verb.add_argument(
        "--format",
        choices=get_args(Format),
        default="parquet",
        help="parquet: shift/<name>; webdataset: tars in shift/<name>_wds; both (default: parquet)",
    )
    verb.add_argument("--bases", help="only these and the default base, separated by commas (default: all)")
    verb.add_argument("--workers", type=int, help="processes to render with (default: one a core)")
    verb.add_argument("--replace", action="store_true", help="overwrite the dataset of another recipe")
    verb.add_argument("--keep-spool", action="store_true", help="keep the rendered blocks after packing")
    verb.add_argument("--quiet", action="store_true", help="no progress bars")
    verb.set_defaults(run=_build)

    verb = verbs.add_parser("check", help="check a built dataset: bytes, rows, card, clients, recipe")
    verb.add_argument("dataset", help="its name, or its folder")
    verb.add_argument("--recipe", help="a .py file, if it is not a recipe of the house")
    verb.set_defaults(run=_check)

    verb = verbs.add_parser("card", help="the card of a recipe, before anything is built")
    verb.add_argument(
        "recipe", nargs="?", help="a name or a .py file (default: write cards/ of every recipe)"
    )
    verb.set_defaults(run=_card)

    verb = verbs.add_parser("contact-sheet", help="a picture of every class in every nuisance")
    verb.add_argument("dataset", help="its name, or its folder")
    verb.add_argument("--base", help="the base to draw (default: the dataset's default base)")
    verb.add_argument("--split", choices=list(SPLITS), default="train", help="default: train")
    verb.add_argument(
        "--output", type=Path, help="the PNG to write (default: build/<name>_contact_sheet.png)"
    )
    verb.set_defaults(run=_contact_sheet)
    add_publish(verbs)
    return parser


def _list(options: argparse.Namespace) -> int:
    for name in recipe_names():
        recipe = load_recipe(name)
        bases = ", ".join(base.name for base in recipe.bases)
        print(f"{name:<16}{recipe.family:<12}{recipe.title} (bases: {bases})")
    return 0


def _build(options: argparse.Namespace) -> int:
    if options.workers is not None and options.workers < 1:
        raise InputError(f"--workers must be at least 1, got {options.workers}")
    folder = build(
        options.recipe,
        options.out,
        format=options.format,
        bases=options.bases.split(",") if options.bases else None,
        workers=options.workers,
        replace=options.replace,
        keep_spool=options.keep_spool,
        quiet=options.quiet,
    )
    _print_built(folder, options.recipe)
    if options.format == "both":
        _print_size(folder.with_name(f"{folder.name}_wds"))
    return 0


def _print_built(folder: Path, recipe: str) -> None:
    manifest = Manifest.read(folder)
    for base in manifest.bases:
        counts = ", ".join(f"{split} {record.rows:,}" for split, record in base.splits.items())
        print(f"{base.name}: {counts}")
        for reason, count in manifest.dropped.get(base.name, {}).items():
            print(f"{base.name}: dropped {count:,}: {reason}")
        if not manifest.is_webdataset:
            _print_empty_groups(folder, manifest, base.name)
        if f"filters/{base.name}.parquet" in manifest.files:
            _print_filters(judged_rows(folder, base.name), load_recipe(recipe))
    _print_size(folder)


def _print_size(folder: Path) -> None:
    manifest = Manifest.read(folder)
    total = sum(record.bytes for record in manifest.files.values())
    print(f"{folder}: {len(manifest.files)} files, {total / 1e6:.1f} MB, content {manifest.content_id[:16]}")


def _print_empty_groups(folder: Path, manifest: Manifest, base: str) -> None:
    """Name the groups of a base without a row in any split: a domain that a class lacks."""
    rows = pq.read_table(folder / f"metadata/{base}", columns=["group"])["group"]
    there = set(rows.to_pylist()) - {None}
    groups = [f"{label}/{nuisance}" for label in manifest.labels for nuisance in manifest.nuisances]
    empty = [name for number, name in enumerate(groups) if number not in there]
    if there and empty:
        more = f" and {len(empty) - MOST_NAMES:,} more" if len(empty) > MOST_NAMES else ""
        named = ", ".join(empty[:MOST_NAMES]) + more
        print(f"{base}: {len(empty):,} of {len(groups):,} groups have no row: {named}")


def _print_filters(judged: pa.Table, recipe: Recipe) -> None:
    print(Stages.of(judged))
    if recipe.filters is not None and recipe.filters.slider is not None:
        slider = recipe.filters.slider
        print(slider_report(judged, slider.scorer.name, slider.least))


def _check(options: argparse.Namespace) -> int:
    folder = _folder(options.dataset)
    problems = check(folder, load_recipe(options.recipe) if options.recipe else None)
    for line in shortened(problems):
        print(line)
    print(f"{folder}: {len(problems)} problems" if problems else f"{folder}: all well")
    return 1 if problems else 0


def _card(options: argparse.Namespace) -> int:
    if options.recipe:
        print(card_of_recipe(load_recipe(options.recipe)), end="")
        return 0
    for name in recipe_names():
        write_text(CARDS / f"{name}.md", card_of_recipe(load_recipe(name)))
        print(f"cards/{name}.md")
    return 0


def _contact_sheet(options: argparse.Namespace) -> int:
    folder = _folder(options.dataset)
    sheet = contact_sheet(folder, Manifest.read(folder), options.base, options.split)
    output = options.output or Path("build") / f"{folder.resolve().name}_contact_sheet.png"
    with whole_file(output) as temporary:
        sheet.save(temporary, "PNG")
    print(f"{output}: {sheet.width} x {sheet.height} pixels")
    return 0


def _folder(name: str) -> Path:
    folder = places.find(name).folder
    if folder is None:
        raise InputError(f"{name} is not in a folder on this machine: build it, or give its folder")
    return folder
