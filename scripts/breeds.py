"""Make builders/raw/breeds.toml again from the three files of BREEDS' hierarchy.

    python scripts/breeds.py FOLDER             compare
    python scripts/breeds.py FOLDER --write     write it

FOLDER has dataset_class_info.json, class_hierarchy.txt and node_names.txt of the folder
imagenet_class_hierarchy/modified of the repository MadryLab/BREEDS-Benchmarks. Their licence is not stated,
and so they are not here. The sha256 of those that the file was made from:

    be90503d57a001f95e094a81dc4de90772bfc58546ca58061d6474799829afd0  dataset_class_info.json
    039cfaddf9732855b93f7899ba4b5ba6d80f8dbe15cfaad566f575b6c8ce0216  class_hierarchy.txt
    322af45711ed69a7b199f11225bd964c7dae71df3c586498bef2f7c9e031dedb  node_names.txt
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from builders.raw.breeds import CUTS, TABLE, Hierarchy, short_hash, text_of
from shiftdata.errors import InputError


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", action="store_true", help="write the file")
    given = parser.parse_args()
    try:
        hierarchy = Hierarchy.read(given.folder)
        tables = {name: hierarchy.superclasses(cut) for name, cut in CUTS.items()}
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    text = "\n".join(text_of(tables)) + "\n"
    for name, superclasses in tables.items():
        print(f"{name}: {len(superclasses)} superclasses, {short_hash(superclasses)}")
    if given.write:
        TABLE.write_text(text, encoding="utf-8")
        return 0
    same = text == TABLE.read_text(encoding="utf-8")
    print(f"{TABLE.name} is {'the same' if same else 'another: --write'}")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
