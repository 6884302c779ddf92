"""`python -m builders contact-sheet`: a picture of every class in every nuisance."""

from __future__ import annotations

from pathlib import Path

import click

from builders.cli.check import built_argument, built_folder
from builders.describe.contact_sheet import contact_sheet
from shiftdata.cli.verbs import verb
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.schema import SPLITS
from shiftdata.files import whole_file


@verb("""
    examples:
      python -m builders contact-sheet sma_emoji
      python -m builders contact-sheet sma_emoji --base extended --split test --output sheet.png
""")
@built_argument
@click.option("--base", metavar="NAME", help="The base to draw. [default: the default base]")
@click.option("--split", type=click.Choice(list(SPLITS)), default="train", help="The split to draw from.")
@click.option("--output", type=Path, metavar="FILE", help="[default: build/<name>_contact_sheet.png]")
def command(dataset: str, base: str | None, split: str, output: Path | None) -> None:
    """Draw one picture of each class in each nuisance, as a PNG."""
    folder = built_folder(dataset)
    sheet = contact_sheet(folder, Manifest.read(folder), base, split)
    output = output or Path("build") / f"{folder.resolve().name}_contact_sheet.png"
    with whole_file(output) as temporary:
        sheet.save(temporary, "PNG")
    print(f"{output}: {sheet.width} x {sheet.height} pixels")
