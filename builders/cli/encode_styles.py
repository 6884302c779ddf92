"""`python -m builders encode-styles`: a folder of style pictures as a file of their codes."""

from __future__ import annotations

from pathlib import Path

import click

from builders.shifts.styles.bank import encode_folder
from builders.shifts.stylizers import Arbitrary
from shiftdata.cli.verbs import verb


@verb("""
    example:
      python -m builders encode-styles my_styles my_styles.parquet
""")
@click.argument(
    "folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="One folder of pictures a style.",
)
@click.argument(
    "output", type=click.Path(dir_okay=False, path_type=Path), help="The file of codes, ending in .parquet."
)
def command(folder: Path, output: Path) -> None:
    """Encode the style pictures FOLDER/<style>/<picture>: 400 bytes a picture, which no longer show it.

    `Stylize(styles=Path("my_styles.parquet"))` makes the same pictures as the folder does.
    """
    bank = encode_folder(folder, Arbitrary())
    bank.write(output, Arbitrary())
    for style, codes in bank.codes.items():
        print(f"{style}: {len(codes)} pictures")
    print(f"{output}: {output.stat().st_size:,} bytes")
