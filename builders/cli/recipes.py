"""`shiftdata recipes`: what can be built by name."""

from __future__ import annotations

from builders.albums import Raw
from builders.recipe_files import load_recipe, recipe_names
from shiftdata.cli.verbs import verb


@verb("""
    example:
      shiftdata recipes
""")
def command() -> None:
    """Show the recipes that come with the package: name, family, title and bases."""
    recipes = [load_recipe(name) for name in recipe_names()]
    wide = max(len(recipe.name) for recipe in recipes) + 2
    for recipe in recipes:
        raw = "; raw data: see `raw list`" if isinstance(recipe.album, Raw) else ""
        bases = ", ".join(base.name for base in recipe.bases)
        print(f"{recipe.name:<{wide}}{recipe.family:<12}{recipe.title} (bases: {bases}{raw})")
