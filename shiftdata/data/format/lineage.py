"""Describe in Croissant the steps that made a dataset, as PROV-O activities, each informed by the last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.records import Activity, UsedFile

Json: TypeAlias = dict[str, Any]

#: Kinds of activities in Wikidata, by which editors of Responsible AI metadata name them.
COLLECTION, PREPROCESSING = ({"@id": f"https://www.wikidata.org/wiki/Q{n}"} for n in (4929239, 5227332))


def steps(manifest: Manifest, activities: Sequence[Activity]) -> list[Json]:
    """Describe each activity by its plan, which is a part of the recipe, and by the files that it used."""
    recipe, version = f"urn:shiftdata:recipe:{manifest.recipe_id}", manifest.versions.get("shiftdata", "")
    agent = {"@id": f"urn:shiftdata:software:{version}"}
    software = agent | {"@type": "prov:SoftwareAgent", "prov:label": f"shiftdata {version}"}
    whole = {"@id": recipe, "@type": "prov:Plan", "prov:label": f"The recipe of {manifest.name}"}
    entries: list[Json] = []
    for number, activity in enumerate(activities, start=1):
        label, code_version = activity.how.partition("(")[0], str(activity.code_version)
        plan: Json = {"@type": "prov:Plan", "prov:label": label, "version": code_version}
        plan |= {"sha256": activity.parameters, "isPartOf": whole}
        association = {"@type": "prov:Association", "prov:agent": agent, "prov:hadPlan": plan}
        entry = {
            "@id": f"{recipe}:{number}",
            "@type": "prov:Activity",
            "prov:type": COLLECTION if activity.name == "collection" else PREPROCESSING,
            "prov:label": activity.name,
            "description": activity.how,
            "prov:used": [_entity(file) for file in activity.used],
            "prov:wasInformedBy": [{"@id": entry["@id"]} for entry in entries[-1:]],
            "prov:wasAssociatedWith": software,
            "prov:qualifiedAssociation": association,
        }
        entries.append({name: value for name, value in entry.items() if value})
    return entries


def _entity(file: UsedFile) -> Json:
    algorithm, _, digits = (file.hash or "").partition(":")
    digest = {"sha256": digits} if algorithm == "sha256" else {"identifier": file.hash}
    entry = {"@type": "prov:Entity", "prov:label": file.name, "url": file.url} | digest
    return {name: value for name, value in entry.items() if value}
