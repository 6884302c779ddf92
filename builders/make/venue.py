"""Go through the steps of a venue's checker of submissions, from the JSON of croissant.json alone.

NeurIPS' checker loads the JSON as an object, asks mlcroissant for its faults and for the first record of each
record set, and since 2026 wants eight fields of Responsible AI metadata.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builders.datasheet import TODO
from shiftdata.data.format.addresses import relative
from shiftdata.data.format.croissant import RAI
from shiftdata.data.format.paths import CROISSANT
from shiftdata.data.places import search as places
from shiftdata.data.verifying.files import first_line
from shiftdata.errors import ShiftdataError
from shiftdata.extras import require
from shiftdata.untrusted.texts import read_json

READER = str(Path(__file__).with_name("venue_reader.py"))
LONGEST = 80  # characters of a reason
#: The fields of NeurIPS 2026 that are answers of the datasheet, and those that follow from a recipe.
ANSWERED = "dataLimitations dataBiases personalSensitiveInformation dataUseCases dataSocialImpact"
DERIVED = {
    "rai:hasSyntheticData": "`synthetic` of the album and of the shift",
    "prov:wasDerivedFrom": "licence and attribution of the album",
    "prov:wasGeneratedBy": "album, prepare, shift, encoding",
}
#: What a venue's checker asks for, and the field of a recipe (or its part) that fills it.
FIELDS = {f"rai:{name}": f"datasheet: {' or '.join(RAI[name])}" for name in ANSWERED.split()} | DERIVED


@dataclass(frozen=True, kw_only=True)
class Step:
    """A step of the checker: what is `lacking` (empty: it passed), and where to `fill` it in."""

    name: str
    lacking: str = ""
    fill: str = ""


def venue_steps(folder: Path, at: str | None = None) -> Iterator[Step]:
    """Check the dataset in a folder as a venue does, by its own files or those of the place `at`."""
    try:
        written = (folder / CROISSANT).read_bytes()
        text = places.store_at(at).read(CROISSANT) if at else written
        document = read_json(text)
        files = [entry["@id"] for entry in document["distribution"] if "contentUrl" in entry]
    except (OSError, ValueError, LookupError, TypeError, ShiftdataError) as error:
        yield Step(name="JSON", lacking=first_line(error), fill="build, or publish, again")
        return
    yield Step(name="JSON")
    place = _place(document, same=relative(text) == relative(written)) if at else Step(name="place")
    yield from [place] if at else []
    if not place.lacking:
        yield from _read(document, {} if at else {path: str(folder / path) for path in files})
    yield from (_field(document, name, fill) for name, fill in FIELDS.items())


def _place(document: Mapping[str, Any], same: bool) -> Step:
    """Check that the place has this dataset, with addresses that lead there from anywhere."""
    urls = [str(entry.get("contentUrl")) for entry in document["distribution"]] if same else []
    near = [url for url in urls if not url.startswith(("http://", "https://"))]
    lacking = f"{len(near)} are relative, such as {near[0]}" if near else ""
    lacking = lacking if same else "the place has the croissant.json of another build"
    return Step(name="addresses", lacking=lacking, fill="publish again; a folder or bucket needs --web")


def _read(document: Mapping[str, Any], mapping: Mapping[str, str]) -> Iterator[Step]:
    """Yield what mlcroissant says of the JSON, and whether each record set gives a record.

    It runs where nothing is cached: a file that it fetched before would hide that the place has lost it.
    """
    require("mlcroissant", "checking croissant.json")
    given = json.dumps({"document": document, "mapping": mapping})
    with tempfile.TemporaryDirectory() as empty:
        ran = subprocess.run(
            [sys.executable, "-P", READER],
            input=given,
            cwd=empty,
            env=os.environ | {"CROISSANT_CACHE": f"{empty}/cache", "TQDM_DISABLE": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
    if ran.returncode:
        lines = ran.stderr.strip().splitlines() or ["the reader ended"]
        yield Step(name="Croissant", lacking=lines[-1], fill="build again")
        return
    answer = read_json(ran.stdout)
    yield Step(name="Croissant", lacking="; ".join(answer["faults"]), fill="the recipe's field of that name")
    failed = {name: fault for name, fault in answer["records"].items() if fault}
    named = [f"{name}: {fault:.{LONGEST}}" for name, fault in failed.items()][:1]
    more = [f"{len(failed) - 1} more sets"] if len(failed) > 1 else []
    name, fill = f"records of {len(answer['records'])} sets", "files that others can read"
    yield Step(name=name, lacking=" and ".join([*named, *more]), fill=fill)


def _field(document: Mapping[str, Any], name: str, fill: str) -> Step:
    value = document.get(name)
    absent = "is missing" if value in (None, "", []) else ""
    return Step(name=name, lacking=absent or ("has a TODO" if TODO in str(value) else ""), fill=fill)
