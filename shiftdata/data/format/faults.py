"""Why no row of a manifest can be read, or why its names would mislead: what `Manifest.from_json` refuses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import astuple
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from shiftdata.data.format.names import COLUMN, is_path_part, is_relative_path, line_fault, text_fault
from shiftdata.data.format.schema import FEATURE_TYPES, POINTER_COLUMNS, SPLITS, columns

if TYPE_CHECKING:
    from shiftdata.data.format.manifest import Manifest
    from shiftdata.data.format.records import Base, Calibration, CanonicalSplit, Split

#: The columns of examples, where their modality fixes them.
EXAMPLES = {"image": {"image": "image"}, "text": {"text": "string"}}
#: Sets of tasks in tars: parts of paths, and splits for `datasets`. Without a hyphen no name begins another's
#: files.
SET_NAME = re.compile(r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*")
ROLES = ("fit", "unlabelled", "select", "test")
SHA256 = re.compile(r"[0-9a-f]{64}")


def faults(manifest: Manifest) -> Iterator[str]:
    """Each fault of a manifest that was read, in words that follow its name."""
    yield from _name_faults(manifest)
    yield from _text_faults(manifest)
    yield from _path_faults(manifest)
    yield from _column_faults(manifest)
    yield from _number_faults(manifest)
    for base in manifest.bases:
        splits, given = set(base.splits), ", ".join(map(ascii, base.splits))
        if base.task is not None and not manifest.is_webdataset:
            yield f"gives the base {base.name!r} a task, which only tars have"
        elif base.task is not None:
            yield from _task_faults(base)
        elif splits != set(SPLITS) and (manifest.part is None or not splits or not splits <= set(SPLITS)):
            yield f"gives the base {base.name!r} the splits {given}; they are {', '.join(SPLITS)}"
    for split in manifest.canonical_splits:
        yield from _canonical_faults(split)


def _task_faults(base: Base) -> Iterator[str]:
    if not base.splits or set(base.roles) != set(base.splits) or not all(base.roles.values()):
        yield f"does not give each set of the task {base.name!r} its roles"
    for name in base.splits:
        if not SET_NAME.fullmatch(name):
            yield f"gives the task {base.name!r} the set {name[:60]!a}; use letters, digits, '_' and '.'"
    if unknown := {role for roles in base.roles.values() for role in roles} - set(ROLES):
        given = ", ".join(sorted(map(ascii, unknown)))
        yield f"gives sets of the task {base.name!r} the roles {given}; they are {', '.join(ROLES)}"


def _name_faults(manifest: Manifest) -> Iterator[str]:
    bases = [base.name for base in manifest.bases]
    canonical = [split.name for split in manifest.canonical_splits]
    for what, name in (
        *(("name", manifest.name), ("version", manifest.version)),
        *(("base", name) for name in bases),
        *(("canonical split", name) for name in canonical),
    ):
        if not is_path_part(name):
            yield f"gives the {what} {name[:60]!a}; use letters, digits, '_', '-' and '.'"
    lists = {"base": bases, "canonical split": canonical, "label": manifest.labels}
    for what, names in (lists | {manifest.roles.nuisance: manifest.nuisances}).items():
        if len(set(names)) < len(names):
            yield f"gives one {what[:60]} twice: {next(one for one in names if names.count(one) > 1)[:60]!a}"


def _text_faults(manifest: Manifest) -> Iterator[str]:
    lines = [manifest.title, manifest.family, manifest.released, manifest.license, *manifest.creators]
    lines += [*manifest.labels, *manifest.nuisances, *manifest.versions, *manifest.versions.values()]
    lines += [text for credit in manifest.credits for text in (credit.license, credit.attribution)]
    texts = [manifest.summary, manifest.citation, *manifest.datasheet, *manifest.datasheet.values()]
    texts += manifest.left_out
    made = manifest.provenance.activities if manifest.provenance else ()
    texts += [text for one in made for text in (one.name, one.how)]
    for base in manifest.bases:
        texts += [base.summary, *base.dropped]
        lines += [base.task.base, base.task.protocol] if base.task else []
    for split in manifest.canonical_splits:
        lines += [split.protocol, *split.sets, *split.configs]
        texts += [split.summary, *split.notes, *(one.reason for one in split.sets.values())]
    if manifest.part is not None:
        lines += [manifest.part.config, *manifest.part.splits]
    if manifest.shortcuts is not None:
        traces = [*manifest.shortcuts.traces, *manifest.shortcuts.files]
        lines += [manifest.shortcuts.base, *(text for one in traces for text in (one.name, one.plainest))]
    if manifest.calibration is not None:
        lines += _names_of(manifest.calibration)
        texts += [manifest.calibration.features, *manifest.calibration.left_out]
    for text in lines:
        if fault := line_fault(text):
            yield f"has a name that {fault}: {text[:60]!a}"
    for text in texts:
        if fault := text_fault(text):
            yield f"has a text that {fault}: {text[:60]!a}"


def _names_of(calibration: Calibration) -> Iterator[str]:
    yield from (calibration.base, *calibration.versions, *calibration.versions.values())
    for one in calibration.measures:
        yield from (one.split, one.trained, one.set, one.worst_cell, *one.by_nuisance)


def _path_faults(manifest: Manifest) -> Iterator[str]:
    records = {**manifest.files, **manifest.withheld}
    folders = {str(parent) for path in records for parent in PurePosixPath(path).parents}
    for path, record in records.items():
        if not is_relative_path(path):
            yield f"names {path[:200]!a}, which leads out of the dataset's folder or is hidden"
        elif path in folders or path.casefold() == "manifest.json":
            yield f"names the file {path[:200]!a}, which cannot be one"
        if not SHA256.fullmatch(record.sha256):
            yield f"gives {path[:200]!a} the sha256 {record.sha256[:70]!a}"
    ids = [manifest.recipe_id, manifest.content_id, *(base.content_id for base in manifest.bases)]
    ids += [base.dropped_id for base in manifest.bases if base.dropped_id]
    ids += [manifest.part.manifest, manifest.part.content_id] if manifest.part else []
    ids += [manifest.calibration.content_id] if manifest.calibration else []
    for one in ids:
        if not SHA256.fullmatch(one):
            yield f"gives the id {one[:70]!a}; ids are 64 digits of 0-9a-f"


def _column_faults(manifest: Manifest) -> Iterator[str]:
    roles = manifest.roles
    modality, example = roles.modality, dict(roles.example)
    taken = {*columns("nuisance"), *POINTER_COLUMNS} - {"nuisance"}
    for name in (roles.nuisance, *example):
        if not COLUMN.fullmatch(name) or name in taken or (name in example and name == roles.nuisance):
            yield f"has a column {name[:60]!a}, which cannot be one"
    if example != EXAMPLES.get(modality, example):
        yield (
            f"gives examples the columns {example}; of the modality {modality} they are {EXAMPLES[modality]}"
        )
    for name, feature in example.items():
        if isinstance(feature, str) and feature not in FEATURE_TYPES:
            known = ", ".join(FEATURE_TYPES)
            yield f"gives the column {name!r} the type {feature!r}; it is one of {known}, or a list of names"


def _number_faults(manifest: Manifest) -> Iterator[str]:
    def negative(sizes: Iterable[Split]) -> bool:
        return any(number < 0 for size in sizes for number in astuple(size))

    sizes = [size for base in manifest.bases for size in base.splits.values()]
    sizes += [one.size for split in manifest.canonical_splits for one in split.sets.values()]
    counts = [number for base in manifest.bases for number in base.dropped.values()]
    counts += [credit.rows for credit in manifest.credits] + [manifest.more_credits]
    counts += manifest.left_out.values()
    for record in manifest.all_files.values():
        counts += [record.bytes, record.rows or 0]
    if manifest.shortcuts is not None:
        counts += [manifest.shortcuts.fit, manifest.shortcuts.tested]
        for one in (*manifest.shortcuts.traces, *manifest.shortcuts.files):
            if not all(0 <= share <= 1 for share in (one.accuracy, one.chance, one.alone, one.noise)):
                yield f"gives the trace {one.name[:60]!a} an accuracy that is not between 0 and 1"
    for measure in manifest.calibration.measures if manifest.calibration else ():
        counts += [measure.fit, measure.rows, measure.cells, measure.smallest]
        shares = (measure.chance, *measure.mean, *measure.worst, *measure.by_nuisance.values())
        if not all(0 <= share <= 1 for share in shares) or measure.seconds < 0:
            yield f"gives {measure.trained[:60]!a} of {measure.split[:60]!a} an accuracy that cannot be"
    if negative(sizes) or any(number < 0 for number in counts):
        yield "has a size or a number of rows below 0"


def _canonical_faults(split: CanonicalSplit) -> Iterator[str]:
    for name, one in split.sets.items():
        if not set(one.splits) <= set(SPLITS):
            given = ", ".join(map(ascii, one.splits))
            yield f"reads {name} of {split.name!r} from the splits {given}; they are {', '.join(SPLITS)}"
    unknown = {name for of in split.configs.values() for name in of} - set(split.sets)
    if unknown:
        given = ", ".join(sorted(map(ascii, unknown)))
        yield f"has a config of {split.name!r} with {given}, which {split.name!r} does not have"
