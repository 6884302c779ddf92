"""What the gallery says of the public datasets that recipes read, from the facts of `builders/raw/facts/`.

python scripts/regenerate_real_datasets.py            writes shiftdata/gallery/real_datasets.json
python scripts/regenerate_real_datasets.py --check    ends with status 1 if that file says something else
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from builders.raw.sources import HOW, Source, size_text, sources
from shiftdata.gallery.catalog import REAL

FILE = Path(__file__).parents[1] / "shiftdata" / "gallery" / REAL


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


def text() -> str:
    return json.dumps([entry(one) for one in sources().values()], indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        sys.exit(FILE.read_text(encoding="utf-8") != text())
    FILE.write_text(text(), encoding="utf-8")
