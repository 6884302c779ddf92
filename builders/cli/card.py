"""`shiftdata card`: the card of a recipe, before anything is built."""

from __future__ import annotations

import click

from builders.describe.card import CARDS
from builders.describe.renderings import card_of_recipe
from builders.recipe_files import embedded_recipes, load_recipe
from shiftdata.cli.verbs import verb
from shiftdata.errors import InputError
from shiftdata.files import write_text


@verb("""
    examples:
      shiftdata card my_birds.py
      shiftdata card                 in a checkout: cards/<name>.md of every recipe without raw data
""")
@click.argument("recipe", required=False, help="A name or a .py file; none, in a checkout: write cards/.")
def command(recipe: str | None) -> None:
    """Print the card of a recipe, with what only a build can count left out."""
    if recipe:
        print(card_of_recipe(load_recipe(recipe)), end="")
        return
    if not CARDS.is_dir():
        raise InputError("only a checkout has cards/: name a recipe, as in `shiftdata card sma_glyphs`")
    for name in embedded_recipes():
        write_text(CARDS / f"{name}.md", card_of_recipe(load_recipe(name)))
        print(f"cards/{name}.md")
