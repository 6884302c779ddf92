"""`shiftdata styles`: styles of one's own, from picture files to a file of codes."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import click

from builders.recipe_files import load_recipe
from builders.shifts.steps import Stylize
from builders.shifts.styles.bank import encode_folder, style_pictures
from builders.shifts.styles.getting import REFUSED, get
from builders.shifts.styles.listed import provenance_of
from builders.shifts.stylizers import Arbitrary, Stylizer
from shiftdata.cli.verbs import GOES_ON, Verb, progress, quiet_option, verb
from shiftdata.data.format.records import by_reason
from shiftdata.errors import InputError


class Styles(Verb, click.Group):
    """The verbs of styles under one name."""


command = Styles(
    "styles",
    help="Styles of your own: get pictures, encode them.",
    epilog="""
    examples:
      shiftdata styles get pictures.tsv my_styles
      shiftdata styles encode my_styles my_styles.parquet

    docs/generators/own_styles.md explains each.
    """,
)


@verb(
    """
    examples:
      shiftdata styles get pictures.tsv my_styles     columns style and file
      shiftdata styles get /data/paintings my_styles  /data/paintings/<style>/<picture>
    """,
    interrupted=GOES_ON,
)
@click.argument(
    "list_", metavar="LIST", type=click.Path(exists=True, path_type=Path), help="A table or a folder."
)
@click.argument("out", type=click.Path(path_type=Path), help="The folder to write.")
@quiet_option
def get_command(list_: Path, out: Path, quiet: bool) -> None:
    """Take the style pictures of LIST into the folder OUT.

    OUT gets <style>/<picture>, styles.tsv with the source of each picture, and refused.tsv with the reason
    why others were refused: no picture, too small, too large, animated, equal to another.
    """
    with progress("get", None, "", quiet=quiet) as bar:

        def on_done(count: int, total: int) -> None:
            bar.total = total
            bar.update(count)

        got = get(list_, out, on_done=on_done)
    for style, count in Counter(picture.style for picture in got.pictures).items():
        print(f"{style}: {count} pictures")
    for reason, count in by_reason(Counter(why for _, _, why in got.refused)).items():
        print(f"refused: {count:,}: {reason}", file=sys.stderr)
    print(f"{out}: {len(got.pictures):,} pictures, {len(got.refused):,} refused ({out / REFUSED})")


@verb("""
    examples:
      shiftdata styles encode my_styles my_styles.parquet
      shiftdata styles encode my_styles my_styles.parquet --like my_adain.py
""")
@click.argument(
    "folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A folder of pictures a style.",
)
@click.argument("output", type=click.Path(path_type=Path), help="The file of codes, ending in .parquet.")
@click.option(
    "--like", metavar="RECIPE", help="A recipe whose stylizer paints. [default: the one that ships]"
)
@quiet_option
def encode_command(folder: Path, output: Path, like: str | None, quiet: bool) -> None:
    """Encode the style pictures FOLDER/<style>/<picture>: 400 bytes a picture, which no longer show it.

    With --like, by the stylizer of a recipe (AdaIN over VGG-19: 4 KB a picture).

    `Stylize(styles=Path("my_styles.parquet"))` makes the same pictures as the folder does. The file says
    where each picture is from, if FOLDER has the table styles.tsv.
    """
    stylizer = _stylizer(like)
    total = sum(map(len, style_pictures(folder).values()))
    with progress("encode", total, "", quiet=quiet) as bar:
        bank = encode_folder(folder, stylizer, on_done=bar.update)
    bank.write(output, stylizer, provenance_of(folder))
    for style, codes in bank.codes.items():
        print(f"{style}: {len(codes)} pictures")
    print(f"{output}: {output.stat().st_size:,} bytes")


command.add_command(get_command, "get")
command.add_command(encode_command, "encode")


def _stylizer(recipe: str | None) -> Stylizer:
    """The stylizer of a recipe, or the one that ships."""
    if recipe is None:
        return Arbitrary()
    shift = load_recipe(recipe).shift
    if not isinstance(shift, Stylize):
        raise InputError(f"the shift of {recipe} is {type(shift).__name__}, and --like needs one by Stylize")
    return shift.stylizer
