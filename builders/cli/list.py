"""`python -m builders list`: the recipes."""

from __future__ import annotations

from builders.albums import Raw
from builders.recipe_files import load_recipe, recipe_names
from shiftdata.cli.verbs import verb


@verb("""
    example:
      python -m builders list
""")
def command() -> None:
    """Show the recipes of this checkout: name, family, title and bases."""
    recipes = [load_recipe(name) for name in recipe_names()]
    wide = max(len(recipe.name) for recipe in recipes) + 2
    for recipe in recipes:
        raw = "; raw data: see `raw list`" if isinstance(recipe.album, Raw) else ""
        bases = ", ".join(base.name for base in recipe.bases)
        print(f"{recipe.name:<{wide}}{recipe.family:<12}{recipe.title} (bases: {bases}{raw})")
