"""`python -m builders list`: the recipes."""

from __future__ import annotations

from builders.recipe import load_recipe, recipe_names
from shiftdata.cli.verbs import verb


@verb("""
    example:
      python -m builders list
""")
def command() -> None:
    """Show the recipes of this checkout: name, family, title and bases."""
    for name in recipe_names():
        recipe = load_recipe(name)
        bases = ", ".join(base.name for base in recipe.bases)
        print(f"{name:<16}{recipe.family:<12}{recipe.title} (bases: {bases})")
