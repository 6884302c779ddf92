"""Render the Croissant metadata of a dataset in WebDataset format: tars and members of samples.

Of each set, the members with one extension are a set of files in its tars. Examples and labels are records
with the keys of their samples; members `json` are only described, since mlcroissant reads none in archives.
"""

from __future__ import annotations

from shiftdata.data.format.attribution import ATTRIBUTION
from shiftdata.data.format.croissant import (
    Json,
    enumerations,
    field_of,
    file_object,
    link_of,
    meanings_of,
    record_set,
    render_document,
)
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.paths import data_files
from shiftdata.data.format.records import Base

#: The media type and the description of members, by their extension.
MEDIA = {"jpg": "image/jpeg", "png": "image/png", "webp": "image/webp", "json": "application/json"}
MEDIA |= dict.fromkeys(("cls", "txt"), "text/plain")
MEMBERS = {"cls": "The labels", "json": "Every column but the example and `params`, as JSON,"}


def render_croissant_of_tars(manifest: Manifest) -> str:
    """Render croissant.json; equal manifests give equal bytes."""
    files, record_sets = [], list(enumerations(manifest))
    if ATTRIBUTION in manifest.files:
        about = "Every licence and attribution of the rows; each labelled sample has its own in its `json`."
        files.append(file_object(ATTRIBUTION, manifest.files[ATTRIBUTION]) | {"description": about})
    for base in manifest.bases:
        for name in base.splits:
            tars = data_files(manifest.files, base.name, name)
            files += [file_object(tar, manifest.files[tar]) for tar in tars]
            for member in manifest.sample:
                if member == "cls" and base.hides_labels(name):
                    continue
                files.append(_members(base, name, member, tars))
                if member != "json":
                    record_sets.append(_records(manifest, base, name, member))
    return render_document(manifest, files, record_sets)


def _members(base: Base, name: str, member: str, tars: list[str]) -> Json:
    """Describe the members with one extension of all tars of a set."""
    identifier = f"{base.name}/{name}.{member}"
    return {
        "@type": "cr:FileSet",
        "@id": f"{identifier}-files",
        "name": f"{identifier}-files",
        "description": f"{MEMBERS.get(member, 'The examples')} of {_about(base, name)}",
        "containedIn": [{"@id": tar} for tar in tars],
        "encodingFormat": MEDIA.get(member, "image/*"),
        "includes": f"*.{member}",
    }


def _about(base: Base, name: str) -> str:
    """Describe a set; of a task also its role, and the protocol that chose its rows."""
    about = f"`{base.name}/{name}`, {base.splits[name].rows:,} samples. {base.summary}"
    if base.task is None:
        return about
    hidden = " Its keys are hashed, and its labels are hidden." if base.hides_labels(name) else ""
    return (
        f"{about} The role of the set is {' and '.join(base.roles[name])}; its rows are of the base "
        f"`{base.task.base}`, chosen by {base.protocol}.{hidden}"
    )


def _records(manifest: Manifest, base: Base, name: str, member: str) -> Json:
    """Make the record set of the examples or the labels of a set, each with the key of its sample."""
    identifier, meanings = f"{base.name}/{name}.{member}", meanings_of(manifest)
    files = {"fileSet": {"@id": f"{identifier}-files"}}
    content = files | {"extract": {"fileProperty": "content"}}
    filename = {"extract": {"fileProperty": "filename"}, "transform": {"regex": rf"^(.+)\.{member}$"}}
    key = field_of(f"{identifier}/key", "sc:Text", "The key of the sample.") | {"source": files | filename}
    if member == "cls":
        field = field_of(f"{identifier}/label", "sc:Integer", meanings["label"])
        link = link_of(field | {"source": content}, "labels/id")
        field |= {"dataType": ["sc:Integer", "cr:Label"], "cr:annotation": link}
    else:
        modality = manifest.roles.modality
        kind = "sc:ImageObject" if modality == "image" else "sc:Text"
        field = field_of(f"{identifier}/{modality}", kind, meanings[modality])
    about = f"{MEMBERS.get(member, 'The examples')} of {_about(base, name)}"
    return record_set(identifier, about, [key, field | {"source": content}], "key")
