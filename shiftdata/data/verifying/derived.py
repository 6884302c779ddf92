"""Check what is derived from rows: canonical splits from their protocols, cards, attributions, the sample."""

from __future__ import annotations

import json
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.parquet as pq

from shiftdata.data.format.attribution import attribution_text, credited
from shiftdata.data.format.front_matter import loading_entries, yaml_lines
from shiftdata.data.format.manifest import FILE_NAME, Manifest
from shiftdata.data.format.paths import protocol_file
from shiftdata.data.format.records import Base, CanonicalSplit
from shiftdata.data.format.writer import Indices
from shiftdata.data.format.written import sample_of
from shiftdata.data.metadata import Metadata
from shiftdata.data.verifying.files import LocalFile
from shiftdata.data.verifying.problem import Problem
from shiftdata.data.verifying.tables import first_line, plain_texts
from shiftdata.errors import InputError, ShiftdataError
from shiftdata.evaluation.protocols import parse_protocol
from shiftdata.evaluation.protocols.canonical import canonical_split
from shiftdata.evaluation.tasks import LeakWarning
from shiftdata.evaluation.tasks.frozen import Frozen
from shiftdata.evaluation.tasks.rows import description_of
from shiftdata.evaluation.tasks.task import canonical_task, frozen_task

FRONT = re.compile(r"---\n(.*?\n)---\n", re.DOTALL)
ROW_GROUP = "row group"
KEY = re.compile(r"[a-z_]+(?=:)")


def reads_params(split: CanonicalSplit) -> bool:
    """Whether the protocol of a canonical split goes by what rows say of their files."""
    with suppress(ShiftdataError):
        protocol = parse_protocol(split.protocol)
        return protocol is not None and protocol.reads_params
    return False


def split_problems(
    split: CanonicalSplit, metadata: Metadata, sizes: Indices, frozen: LocalFile
) -> Iterator[Problem]:
    """Whether the protocol of a canonical split makes what is frozen, and what the manifest says of it."""
    if frozen.file is None:
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LeakWarning)
            protocol = parse_protocol(split.protocol)
            if protocol is None:
                raise InputError("it is the splits of the files themselves")
            made = protocol(canonical_task(metadata), on_empty="report")
            same = made.content_id() == frozen_task(metadata, frozen.file).content_id()
            same = same and _plain(description_of(made)) == _plain(Frozen.read(frozen.file))
            again = canonical_split(protocol, made, split.base, sizes, virtual=bool(split.configs))
    except ShiftdataError as error:
        yield Problem(
            frozen.path, f"cannot be made again by {split.protocol}: {first_line(error)}", "protocol"
        )
        return
    if not same:
        what = f"is not what {split.protocol} makes of {split.base}: run the build again with --replace"
        yield Problem(frozen.path, what, "protocol")
    said, found = _plain(split), _plain(again)
    for name in (name for name in said if said[name] != found[name]):
        what = f"has other {name} of {split.name} than {split.protocol} makes of {split.base}"
        yield Problem(FILE_NAME, f"{what}: fetch it again, or build the dataset again", "protocol")


def _plain(record: Any) -> Any:
    """A record as JSON has it: a list and a tuple are the same."""
    return json.loads(json.dumps(asdict(record)))


def kept_by_filters(
    manifest: Manifest, base: Base, split: str, file: Path, rows: pa.Table
) -> Counter[tuple[str, str]]:
    """How many rows of a data file the filters of each set keep for a reader, who goes by statistics.

    Such a reader opens the row groups that may have such rows, and filters what is in them.
    """
    kept: Counter[tuple[str, str]] = Counter()
    opened = pads.dataset(file, format="parquet")
    (fragment,) = opened.get_fragments()
    numbers = np.repeat(np.arange(fragment.num_row_groups), [one.num_rows for one in fragment.row_groups])
    rows = plain_texts(rows).append_column(ROW_GROUP, pa.array(numbers))
    for canonical in manifest.canonical_splits:
        for name, one in canonical.sets.items() if canonical.base == base.name else ():
            if one.filters is None or split not in one.splits:
                continue
            with suppress(ValueError, TypeError, pa.ArrowException):  # others keep no row
                asked = pq.filters_to_expression(one.filters)
                groups = [group.id for group in fragment.subset(asked, schema=opened.schema).row_groups]
                kept[canonical.name, name] += rows.filter(asked & pc.field(ROW_GROUP).isin(groups)).num_rows
    return kept


def filter_problems(manifest: Manifest, base: Base, kept: Mapping[tuple[str, str], int]) -> Iterator[Problem]:
    """Sets of which a reader gets another number of rows than the manifest says."""
    for canonical in manifest.canonical_splits:
        for name, one in canonical.sets.items() if canonical.base == base.name else ():
            count = kept.get((canonical.name, name), 0)
            if one.filters is not None and count != one.size.rows:
                what = f"its filters keep {count} rows of {name} in the data files, not {one.size.rows}"
                yield Problem(protocol_file(canonical.name), what, "filters")


def card_problems(manifest: Manifest, card: LocalFile) -> Iterator[Problem]:
    """Whether the card makes `datasets` load the configs that the manifest has."""
    known = manifest.default_base in {base.name for base in manifest.bases}
    if card.file is None or manifest.is_webdataset or not known:
        return
    found = FRONT.match(card.file.read_text(encoding="utf-8", errors="replace"))
    front = _by_key(found[1] if found else "")
    for key, wanted in _by_key("\n".join([*yaml_lines(loading_entries(manifest)), ""])).items():
        if front.get(key) != wanted:
            what = f"has other {key} than the manifest: fetch it again, or build the dataset again"
            yield Problem(card.path, what, "card")


def _by_key(front: str) -> dict[str, str]:
    """The lines of each key of a front matter; none of one that YAML could read in another way."""
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
    """Whether ATTRIBUTION.md and the licence of the whole are those of the rows."""
    everyone = credited({(terms_ or "", who or ""): rows for (terms_, who), rows in terms.items()})
    said = " AND ".join(sorted({credit.license for credit in everyone}))
    if manifest.license != said:
        yield Problem(FILE_NAME, f"has the licence {manifest.license!r}, its rows have {said!r}", "licence")
    if local.file is None:
        return
    text = attribution_text(manifest.name, everyone)
    if local.file.read_bytes() != text.encode():
        yield Problem(local.path, "does not have the credits of the rows: build the dataset again", "credits")


def sample_problems(manifest: Manifest, file: Path) -> Iterator[Problem]:
    """Whether the sample in the manifest is the first row of a data file."""
    if manifest.sample != json.loads(json.dumps(sample_of(manifest, file))):
        yield Problem(FILE_NAME, "has a sample that is not the first row: build the dataset again", "sample")
