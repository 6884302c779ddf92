"""The verbs of producers: `shiftdata` finds them by an entry point, `python -m builders` has them alone."""

from __future__ import annotations

from collections.abc import Sequence

from shiftdata.cli.verbs import Table, Verbs

TABLE = Table(
    "builders.cli",
    {
        "Make": {
            "new": "Look at your data, and write a recipe for it.",
            "recipes": "Show the recipes that come with the package.",
            "raw": "Raw public datasets: list, get, check.",
            "build": "Build a dataset, or go on building it.",
            "check": "Check a built dataset: files, rows, card, readers, recipe.",
            "card": "Print the card of a recipe before anything is built.",
            "styles": "Styles of your own: get pictures, encode them.",
            "sliders": "Train the sliders of a diffusion model.",
        },
        "Publish and serve": {
            "hide": "Copy a dataset without its test labels.",
            "publish": "Put a built dataset where others find it.",
        },
    },
    extra="build",
)
APP = Verbs(TABLE, help="Make datasets from recipes, by the same verbs as `shiftdata` has.")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb, and return the exit status."""
    return APP.run(arguments)
