"""The command line of producers: `python -m builders <verb>`, run from a checkout."""

from __future__ import annotations

from collections.abc import Sequence

from shiftdata.cli.verbs import Verbs

APP = Verbs(
    "builders.cli",
    {
        "new": "Look at your data, and write a recipe for it.",
        "list": "Show the recipes.",
        "raw": "Raw public datasets: list, get, check.",
        "build": "Build a dataset, or go on building it.",
        "check": "Check a built dataset: files, rows, card, readers, recipe.",
        "calibrate": "Calibrate a built dataset, with the record at its recipe.",
        "card": "Print the card of a recipe before anything is built.",
        "styles": "Styles of your own: get pictures, encode them.",
        "sliders": "Train the sliders of a diffusion model.",
        "hide": "Copy a dataset without its test labels, to judge predictions by.",
        "publish": "Put a built dataset where others find it.",
    },
    help="Make distribution-shift datasets from recipes.",
    epilog="""
    examples:
      python -m builders new photos
      python -m builders list
      python -m builders raw list
      python -m builders build sma_emoji
      python -m builders check sma_emoji
      python -m builders publish sma_emoji --to /srv/shift --dry-run

    `python -m builders VERB --help` explains a verb.
    """,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb, and return the exit status."""
    return APP.run(arguments)
