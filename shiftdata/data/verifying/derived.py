"""Check what is derived from rows: cards, attributions, the sample, the list of what was dropped."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from shiftdata.data.format.attribution import attribution_text, credited
from shiftdata.data.format.front_matter import loading_entries, yaml_lines
from shiftdata.data.format.identity import dropped_id
from shiftdata.data.format.manifest import FILE_NAME, Manifest
from shiftdata.data.format.written import sample_of
from shiftdata.data.verifying.files import LocalFile, Problem
from shiftdata.data.verifying.tables import read_table

FRONT = re.compile(r"---\n(.*?\n)---\n", re.DOTALL)
KEY = re.compile(r"[a-z_]+(?=:)")
DROPPED_ROWS = pa.schema([(name, pa.string()) for name in ("base", "key", "reason")])


def card_problems(manifest: Manifest, card: LocalFile) -> Iterator[Problem]:
    """Check that the card makes `datasets` load the configs that the manifest has."""
    listed = manifest.default_base in {base.name for base in manifest.bases}
    if card.file is None or manifest.is_webdataset or not listed:
        return
    match = FRONT.match(card.file.read_text(encoding="utf-8", errors="replace"))
    front = _by_key(match[1] if match else "")
    for key, wanted in _by_key("\n".join([*yaml_lines(loading_entries(manifest)), ""])).items():
        if front.get(key) != wanted:
            text = f"has other {key} than the manifest: fetch it again, or build the dataset again"
            yield Problem(card.path, text, "card")


def _by_key(front: str) -> dict[str, str]:
    """Return the lines of each key of a front matter; none if YAML could read one in another way."""
    lines: dict[str, str] = {}
    key = ""
    for line in front.splitlines(keepends=True):
        if not line.startswith(("-", " ")):
            named = KEY.match(line)
            key = named[0] if named and named[0] not in lines else "?"
        lines[key] = lines.get(key, "") + line
    return {} if "?" in lines else lines


def attribution_problems(
    manifest: Manifest, local: LocalFile, terms: Counter[tuple[str | None, str | None]]
) -> Iterator[Problem]:
    """Check that ATTRIBUTION.md and the licence of the whole are those of the rows."""
    everyone = credited({(license_ or "", who or ""): rows for (license_, who), rows in terms.items()})
    license_ = " AND ".join(sorted({credit.license for credit in everyone}))
    if manifest.license != license_:
        text = f"has the licence {manifest.license!r}, its rows have {license_!r}"
        yield Problem(FILE_NAME, text, "licence")
    if (
        local.file is not None
        and local.file.read_bytes() != attribution_text(manifest.name, everyone).encode()
    ):
        yield Problem(local.path, "does not have the credits of the rows: build the dataset again", "credits")


def sample_problems(manifest: Manifest, file: Path) -> Iterator[Problem]:
    """Check that the sample in the manifest is the first row of a data file."""
    if manifest.sample != json.loads(json.dumps(sample_of(manifest, file))):
        yield Problem(FILE_NAME, "has a sample that is not the first row: build the dataset again", "sample")


def dropped_problems(manifest: Manifest, local: LocalFile) -> Iterator[Problem]:
    """Check the names of what was dropped against the counts and hashes of each base."""
    rows, problems = read_table(local, DROPPED_ROWS)
    yield from problems
    if rows is None:
        return
    for base in manifest.bases:
        mine = rows.filter(pc.equal(rows["base"], base.name)).select(["key", "reason"])
        counts = pc.value_counts(mine["reason"])
        same = len(counts) == len(base.dropped)  # before millions of texts become Python's
        same = same and {each["values"]: each["counts"] for each in counts.to_pylist()} == base.dropped
        if not same or dropped_id(zip(*mine.to_pydict().values(), strict=True)) != base.dropped_id:
            text = f"does not name what was dropped from {base.name}: fetch it or build the dataset again"
            yield Problem(local.path, text, "dropped")
