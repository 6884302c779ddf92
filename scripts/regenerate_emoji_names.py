"""Rebuild the texts of `emoji_names`, byte-equal, from the public npm package emojibase-data.

    python scripts/regenerate_emoji_names.py [--packages DIR] [--check]

A text is the name of an emoji in a language, and its keywords, both from Unicode's CLDR. Which emoji, and
under which label and origin, says `concepts.tsv` next to it. DIR has the tarball as `npm pack` names
it; without it, it is fetched. It must have the pinned sha512, and is read in memory. `--check` writes nothing
and fails where the shipped file differs.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import tarfile
from pathlib import Path

from npm_packages import member, opened

PACKAGE, VERSION = "emojibase-data", "17.0.0"
INTEGRITY = "sha512-Yvgb5AWoHViHV/gq1qr5ZAarcBip+B27/ZLRsUJkbgAEaLlZ/fof9g882LTpmEpyhBNEC0m2SEmItljHsTygjA=="
LANGUAGES = ("de", "en", "es", "fr", "hi", "ja", "ru", "zh")
ASSETS = Path(__file__).parents[1] / "builders/albums/assets/emoji_names"
NAMES = ASSETS / "names.tsv"


def table(tar: tarfile.TarFile) -> str:
    """The text of `names.tsv`: a row a concept and language."""
    with (ASSETS / "concepts.tsv").open(encoding="utf-8", newline="") as handle:
        concepts = list(csv.DictReader(handle, delimiter="\t"))
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter="\t", lineterminator="\n")
    writer.writerow(["key", "label", "origin", "language", "text"])
    texts = {language: texts_of(tar, language) for language in LANGUAGES}
    for row in concepts:
        for language in LANGUAGES:
            key = f"{row['label']}_{row['concept']}-{language}"
            writer.writerow([key, row["label"], row["origin"], language, texts[language][row["hexcode"]]])
    return stream.getvalue()


def texts_of(tar: tarfile.TarFile, language: str) -> dict[str, str]:
    """The text of every emoji in a language, by its hexcode without variation selectors."""
    texts = {}
    for emoji in json.loads(member(tar, f"package/{language}/data.json")):
        code = "-".join(part for part in emoji["hexcode"].lower().split("-") if part != "fe0f")
        name = emoji["label"]
        keywords = [tag for tag in emoji.get("tags", ()) if tag.casefold() != name.casefold()]
        texts[code] = f"{name}: {', '.join(keywords)}" if keywords else name
    return texts


def main() -> int:
    """Read the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description="Rebuild the texts of emoji_names from the npm package.")
    parser.add_argument("--packages", type=Path, help="folder with the tarball (default: run npm pack)")
    parser.add_argument("--check", action="store_true", help="compare with what ships, write nothing")
    arguments = parser.parse_args()
    with opened(PACKAGE, VERSION, INTEGRITY, arguments.packages) as tar:
        made = table(tar).encode()
    if not arguments.check:
        NAMES.write_bytes(made)
        print(f"{NAMES.name}: {len(made.splitlines()) - 1} texts in {len(LANGUAGES)} languages")
        return 0
    equal = NAMES.is_file() and NAMES.read_bytes() == made
    print(f"{NAMES.name} is {'equal to' if equal else 'not'} what {PACKAGE} {VERSION} gives.")
    return 0 if equal else 1


if __name__ == "__main__":
    raise SystemExit(main())
