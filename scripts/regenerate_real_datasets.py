"""Write what `shiftdata` knows of recipes and of the public datasets that they read: `builders/raw/facts/`.

shiftdata/serve/pages/real_datasets.json is for the front page, shiftdata/data/places/recipes.json for errors.

python scripts/regenerate_real_datasets.py            writes both
python scripts/regenerate_real_datasets.py --check    ends with status 1 if a file says something else
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from builders.raw.sources import HOW, Source, size_text, source, sources
from builders.recipe_files import embedded_recipes, recipe_names
from shiftdata.serve.pages.catalog import REAL

PACKAGE = Path(__file__).parents[1] / "shiftdata"


def entry(one: Source) -> dict[str, object]:
    counted = next((counts for counts in one.counts if counts.all), None)
    return {
        "name": one.name,
        "title": one.title,
        "license": one.license,
        "size": size_text(one.size),
        "how": "; ".join(dict.fromkeys(HOW[way.how] for way in one.ways)),
        "examples": f"{counted.all:,}, {counted}" if counted else "not known",
        "recipes": list(one.recipes),
    }


def recipes() -> dict[str, dict[str, str]]:
    embedded = embedded_recipes()
    raw = {name: source(name) for name in recipe_names() if name not in embedded}
    return {
        name: {"raw": raw[name].name, "license": raw[name].license} if name in raw else {}
        for name in recipe_names()
    }


def texts() -> dict[Path, str]:
    made = {
        PACKAGE / "serve/pages" / REAL: [entry(one) for one in sources().values()],
        PACKAGE / "data/places/recipes.json": recipes(),
    }
    return {path: json.dumps(of, indent=1, ensure_ascii=False) + "\n" for path, of in made.items()}


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        sys.exit(any(path.read_text(encoding="utf-8") != text for path, text in texts().items()))
    for path, text in texts().items():
        path.write_text(text, encoding="utf-8")
