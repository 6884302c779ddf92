"""Canonical splits as problems of Croissant Tasks: sets as inputs, predictions by key, official figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias
from urllib.parse import quote

from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.paths import protocol_file
from shiftdata.data.format.records import CanonicalSplit

Json: TypeAlias = dict[str, Any]

OUTPUT, PREDICTIONS = "tasks/output", "tasks/predictions"


def problem_id(content_id: str, task: str) -> str:
    """Return the identifier of a task (a canonical split, or protocols as words) on a base's content.

    >>> problem_id("ab" * 32, "uda source=rock")
    'urn:shiftdata:task:abababababababab:uda%20source%3Drock'
    """
    return f"urn:shiftdata:task:{content_id[:16]}:{quote(task, safe='')}"


def problems(manifest: Manifest, types: Mapping[str, str]) -> list[Json]:
    """Return a TaskProblem for each canonical split; `types` are Croissant's names of roles.

    A node of the type sc:Dataset would make mlcroissant take it for the dataset itself: sets are splits.
    """
    entries = [_problem(manifest, split, types) for split in manifest.canonical_splits]
    for entry in entries[:1]:
        entry["cr:output"] = _output()  # to which the others refer
    return entries


def _problem(manifest: Manifest, split: CanonicalSplit, types: Mapping[str, str]) -> Json:
    content_id, where = manifest.base(split.base).content_id, f"tasks/{split.name}"
    rows = {"isPartOf": {"@id": split.name}} if protocol_file(split.name) in manifest.files else {}
    inputs = [
        {
            "@type": types[of.roles[0]],
            "@id": f"{where}/{name}",
            "name": name,
            "description": f"{of.size.rows:,} rows of `{split.base}`; role: {' and '.join(of.roles)}.",
            **rows,
        }
        for name, of in split.sets.items()
    ]
    # A node that refers to itself, as that of `continuous` would, has no end for mlcroissant.
    other = split.protocol != split.name
    same = {"sameAs": {"@id": problem_id(content_id, split.protocol)}} if other else {}
    return {
        "@type": "cr:TaskProblem",
        "@id": problem_id(content_id, split.name),
        **same,
        "name": split.name,
        "description": f"{split.summary} Made by the protocol {split.protocol}.",
        "cr:input": inputs,
        "cr:output": {"@id": OUTPUT},
        "cr:evaluation": {
            "@type": "cr:EvaluationSpec",
            "@id": f"{where}/evaluation",
            **({"cr:metric": list(split.metrics)} if split.metrics else {}),
        },
    }


def _output() -> Json:
    """Return what solutions of all tasks give: a record set of predictions by key."""
    about = "For the key of each row of a test set, the name of the predicted label."
    fields = [
        {"@type": "cr:Field", "@id": f"{PREDICTIONS}/{name}", "name": name, "dataType": "sc:Text"}
        for name in ("key", "prediction")
    ]
    records: Json = {"@type": "cr:RecordSet", "@id": PREDICTIONS, "name": "predictions", "description": about}
    records |= {"field": fields}
    return {"@type": "cr:OutputSpec", "@id": OUTPUT, "cr:schema": records}
