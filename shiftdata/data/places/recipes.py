"""The recipes that a checkout can build, for datasets that no place has: `recipes.json` names them."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from importlib.resources import files

FILE_NAME = "recipes.json"


def recipes() -> dict[str, Mapping[str, str]]:
    """Return every recipe by name: the raw dataset that it reads, if any, and that dataset's licence."""
    text = files("shiftdata.data.places").joinpath(FILE_NAME).read_text(encoding="utf-8")
    known: dict[str, Mapping[str, str]] = json.loads(text)
    return known


def build_advice(name: str) -> list[str]:
    """Say how the dataset of a recipe is built, or which recipes have similar names."""
    known = recipes()
    if name not in known:
        nearest = difflib.get_close_matches(name, known, n=3)
        listed = f" ({', '.join(nearest)}: similar names)" if nearest else ""
        return [f"to build one, from a checkout of shiftdata: python -m builders list{listed}"]
    raw = known[name].get("raw")
    build = f"python -m builders build {name}"
    if not raw:
        return [f"it is not built yet; a recipe of this name needs no download. From a checkout: {build}"]
    return [
        f"it is not built yet; a recipe of this name reads {raw} (licence: {known[name]['license']}). "
        "From a checkout:",
        f"  python -m builders raw get {raw}    gets the files, or says how to",
        f"  {build}",
    ]
