"""Write shiftdata/data/places/recipes.json: the recipes that an error names where a dataset is not found.

python scripts/regenerate_recipe_names.py            writes it
python scripts/regenerate_recipe_names.py --check    ends with status 1 if it differs
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from builders.raw.sources import source
from builders.recipe_files import embedded_recipes, recipe_names

FILE = Path(__file__).parents[1] / "shiftdata/data/places/recipes.json"


def recipes() -> dict[str, dict[str, str]]:
    embedded = embedded_recipes()
    raw = {name: source(name) for name in recipe_names() if name not in embedded}
    return {
        name: {"raw": raw[name].name, "license": raw[name].license} if name in raw else {}
        for name in recipe_names()
    }


if __name__ == "__main__":
    text = json.dumps(recipes(), indent=1, ensure_ascii=False) + "\n"
    if "--check" in sys.argv[1:]:
        sys.exit(FILE.read_text(encoding="utf-8") != text)
    FILE.write_text(text, encoding="utf-8")
