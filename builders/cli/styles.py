"""`python -m builders styles`: styles of one's own, from addresses or files to a file of codes."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import click

from builders.curate.getting import REFUSED, THREADS, get
from builders.sample import by_reason
from builders.shifts.styles.bank import encode_folder
from builders.shifts.stylizers import Arbitrary
from shiftdata.cli.verbs import GOES_ON, Verb, progress, quiet_option, verb


class Styles(Verb, click.Group):
    """The steps of the way, under one name."""


command = Styles(
    "styles",
    help="Styles of your own: get pictures, label some, filter all, measure fidelity, encode.",
    epilog="""
    examples:
      python -m builders styles get pictures.tsv my_styles
      python -m builders styles encode my_styles my_styles.parquet
    """,
)
out_argument = click.argument(
    "out", type=click.Path(file_okay=False, path_type=Path), help="The folder that `styles get` wrote."
)


@verb(
    """
    examples:
      python -m builders styles get pictures.tsv my_styles     columns style and url or file
      python -m builders styles get /data/paintings my_styles  /data/paintings/<style>/<picture>
    """,
    interrupted=GOES_ON,
)
@click.argument(
    "list_", metavar="LIST", type=click.Path(exists=True, path_type=Path), help="A table or a folder."
)
@click.argument("out", type=click.Path(path_type=Path), help="The folder to write.")
@click.option("--threads", type=click.IntRange(1, 64), default=THREADS, help="Downloads at a time.")
@quiet_option
def get_command(list_: Path, out: Path, threads: int, quiet: bool) -> None:
    """Get style pictures from the files and addresses of LIST into the folder OUT.

    OUT gets <style>/<picture>, styles.tsv, which says where each picture is from, and refused.tsv, which says
    why others were refused: no picture, too small, too large, animated, equal or nearly equal to another.
    """
    with progress("get", None, "pictures", quiet=quiet) as bar:

        def on_done(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        got = get(list_, out, threads=threads, on_done=on_done)
    for style, count in Counter(picture.style for picture in got.pictures).items():
        print(f"{style}: {count} pictures")
    for reason, count in by_reason(Counter(why for _, _, why in got.refused)).items():
        print(f"refused: {count:,}: {reason}", file=sys.stderr)
    print(f"{out}: {len(got.pictures):,} pictures, {len(got.refused):,} refused ({out / REFUSED})")


@verb("""
    examples:
      python -m builders styles encode my_styles my_styles.parquet
""")
@click.argument(
    "folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="One folder of pictures a style.",
)
@click.argument(
    "output", type=click.Path(dir_okay=False, path_type=Path), help="The file of codes, ending in .parquet."
)
def encode_command(folder: Path, output: Path) -> None:
    """Encode the style pictures FOLDER/<style>/<picture>: 400 bytes a picture, which no longer show it.

    `Stylize(styles=Path("my_styles.parquet"))` makes the same pictures as the folder does.
    """
    bank = encode_folder(folder, Arbitrary())
    bank.write(output, Arbitrary())
    for style, codes in bank.codes.items():
        print(f"{style}: {len(codes)} pictures")
    print(f"{output}: {output.stat().st_size:,} bytes")


for _name, _command in {"get": get_command, "encode": encode_command}.items():
    command.add_command(_command, _name)
