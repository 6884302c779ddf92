"""`shiftdata.json`: what an exported folder is, so that it can be read back and told from another."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from shiftdata.errors import IntegrityError, NotFoundError
from shiftdata.exporting.folders.plan import RECORD, Name, Plan
from shiftdata.stable import content_hash

FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Record:
    """What an export holds.

    `export_id` identifies all that is in it but `keys_sha256`, the hash of `keys.csv`. `sets` has folder,
    examples and rows of each set; `class_to_label` what each class number of this layout means: its folder,
    and the number and name that the dataset gives the label. `domain_to_nuisance` says the same of domains.
    """

    format: int = FORMAT
    layout: str
    dataset: str
    version: str
    content_id: str
    base: str
    nuisance: str
    task: str
    task_id: str
    sets: Mapping[str, Mapping[str, Any]]
    class_to_label: Sequence[Mapping[str, Any]]
    domain_to_nuisance: Sequence[Mapping[str, Any]]
    notes: Sequence[str]
    export_id: str
    keys_sha256: str = ""

    def to_json(self) -> str:
        """The text of the file: equal records give equal bytes."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def read(cls, folder: Path) -> Record:
        """The record of an exported folder."""
        path = folder / RECORD
        if not path.is_file():
            raise NotFoundError(f"{folder} holds no {RECORD}: no export, or it has not finished")
        try:
            raw = json.loads(path.read_bytes())
            if raw["format"] != FORMAT:
                raise IntegrityError(
                    f"{path} has format {raw['format']!r}; this shiftdata reads format {FORMAT}: "
                    "install a newer shiftdata"
                )
            return cls(**raw)
        except (ValueError, TypeError, KeyError) as error:
            raise IntegrityError(f"{path} is not the record of an export ({error}): export again") from error


def record_of(plan: Plan, layout: str, notes: Sequence[str]) -> Record:
    """The record of a planned export."""
    sets = {
        name: {
            "folder": folder,
            "examples": sum(plan.entries[number].times for number in numbers),
            "rows": len(numbers),
        }
        for (name, numbers), folder in zip(plan.of_sets(), plan.sets.values(), strict=True)
    }
    fields: dict[str, Any] = {
        "layout": layout,
        "dataset": plan.manifest.name,
        "version": plan.manifest.version,
        "content_id": plan.manifest.content_id,
        "base": plan.base,
        "nuisance": plan.nuisance,
        "task": plan.told,
        "task_id": plan.task.content_id(),
        "sets": sets,
        "class_to_label": _told("class", "label", plan.classes),
        "domain_to_nuisance": _told("domain", "nuisance", plan.domains),
        "notes": list(notes),
    }
    # Only rows that are exported count: the same set may have another name in the task.
    members = content_hash(*(f"{one.set}\t{one.key}\t{one.times}" for one in plan.entries))
    identity = content_hash(json.dumps([FORMAT, fields], sort_keys=True), members)
    return Record(**fields, export_id=identity)


def _told(ours: str, theirs: str, names: Sequence[Name]) -> list[dict[str, Any]]:
    return [
        {ours: number, "folder": one.folder, theirs: one.number, "name": one.name}
        for number, one in enumerate(names)
    ]
