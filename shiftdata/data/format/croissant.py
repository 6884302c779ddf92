"""Render a dataset's Croissant metadata from its manifest: description, files, meaning of columns.

Each Parquet file is a source and a record set of its own: mlcroissant reads no record from a set of files
behind URLs, and venues ask every record set for its first. Addresses are relative here; a publisher
on the web writes absolute ones: see `shiftdata.data.format.addresses`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from shiftdata.data.format import usage
from shiftdata.data.format.licenses import conjuncts
from shiftdata.data.format.lineage import steps
from shiftdata.data.format.manifest import FILE_NAME, Manifest
from shiftdata.data.format.paths import ATTRIBUTION, data_files, protocol_file
from shiftdata.data.format.problems import problems
from shiftdata.data.format.records import Base, CanonicalSplit, Split, by_reason
from shiftdata.data.format.schema import (
    FEATURE_TYPES,
    FROZEN,
    NAME,
    POINTER_COLUMNS,
    columns,
    example_type,
    name_columns,
)
from shiftdata.errors import InputError
from shiftdata.untrusted.texts import read_json

Json: TypeAlias = dict[str, Any]
Kind: TypeAlias = str | list[str]

CONTEXT = Path(__file__).with_name("croissant_context.json")  # the standard one of Croissant 1.1
CONFORMS_TO = ["http://mlcommons.org/croissant/1.1", "http://mlcommons.org/croissant/RAI/1.0"]
ENCODINGS = {
    "tar": "application/x-tar",  # packed ones too: mlcroissant knows no archive by another name
    "parquet": "application/x-parquet",
    "md": "text/markdown",
}
NAMESPACES = {"prov": "http://www.w3.org/ns/prov#"} | usage.CONTEXT

#: Croissant's names of roles and of Arrow types: others are integers, and bytes have no name.
TRAINING = "cr:TrainingSplit"
ROLE_TYPES = {"fit": TRAINING, "unlabelled": TRAINING, "select": "cr:ValidationSplit", "test": "cr:TestSplit"}
SPLIT_ROLES = {"train": "fit", "validation": "select", "test": "test"}
TYPES = {pa.string(): "sc:Text", pa.binary(): "sc:Text", pa.float64(): "sc:Float", pa.bool_(): "sc:Boolean"}
TYPES |= {FEATURE_TYPES["image"]: "sc:ImageObject", NAME: "sc:Text"}

#: The answers of the datasheet that make up each property of the Responsible AI vocabulary.
RAI = {
    "dataCollection": ("collection", "selection"),
    "dataAnnotationProtocol": ("labelling",),
    "dataPreprocessingProtocol": ("preprocessing",),
    "personalSensitiveInformation": ("people",),
    "dataBiases": ("biases",),
    "dataLimitations": ("limitations", "misuses"),
    "dataUseCases": ("purpose", "uses"),
    "dataSocialImpact": ("impact",),
    "dataReleaseMaintenancePlan": ("maintenance",),
}

#: The meaning of each column; braces are filled in for the dataset.
MEANINGS = {
    "key": "The name of the row, unique within its base.",
    "split": "The canonical split of the row. It follows from `fold`.",
    "fold": "Percentile (0 to 99) of the row's origin within its class (within its group, where each origin "
    "has one {nuisance}): train is below 50, validation 50 to 69, test from 70. Other cuts of it are as free "
    "of leaks.",
    "label": "The class to predict, as its id in `labels`.",
    "nuisance": "The {nuisance}: what shifts and is not to be predicted, as its id in `{nuisance}s`. "
    "Null for untouched content.",
    "severity": "Strength of the {nuisance}; 0 is the untouched example. Null where there is no scale.",
    "group": "Class and {nuisance} as one: label * {nuisances} + {nuisance}. Null for untouched content.",
    "origin": "What the example was made from. No origin is in two splits.",
    "quantile": "(Position + 1/2) / size in split, group and severity: the share f of each lies below f.",
    "license": "The licence of this row, as an SPDX expression. Rows may differ; each keeps its own.",
    "attribution": "The authors of the content of this row. Those of what its {nuisance} adds are sources.",
    "params": "JSON: everything needed to make this example again.",
    "image": "The picture.",
    "text": "The text.",
    "feature": "A feature of the example. Null where it is not known.",
    "category": "A feature of the example, as its id in `{column}_values`. Null where it is not known.",
    "label_name": "The name of the class.",
    "nuisance_name": "The name of the {nuisance}.",
    "shard": "The number k of the file `data/{base}/<split>-0000k-of-0000n.parquet` with the example.",
    "row": "Position of the row in that file, from 0.",
    "offset": "Where the bytes of the example begin in that file. Null unless they are stored as they are.",
    "length": "How many bytes the example has.",
    "sha256": "SHA-256 of the bytes of the example, as 32 bytes.",
    "count": "How many times the split takes the row.",
}
#: The media type and the description of members of tars, by their extension.
MEDIA = {"jpg": "image/jpeg", "png": "image/png", "webp": "image/webp", "json": "application/json"}
MEDIA |= dict.fromkeys(("cls", "txt"), "text/plain")
MEMBERS = {"cls": "The labels", "json": "Every column but the example and `params`, as JSON,"}
EQUIVALENT = {"license": "sc:license", "attribution": "sc:creditText"}
LONGEST_FILTERS = 4_000  # characters; longer ones are in manifest.json alone


def render_croissant(manifest: Manifest) -> str:
    """Render croissant.json; equal manifests give equal bytes."""
    files, record_sets = [], list(_enumerations(manifest))
    if ATTRIBUTION in manifest.files:  # not of a draft
        place = (
            "labelled sample has its own in its `json`"
            if manifest.is_webdataset
            else "row has its own in its columns"
        )
        about = f"Every licence and attribution of the rows; each {place}."
        files.append(_file_object(manifest, ATTRIBUTION) | {"description": about})
    for entry, records in _tars(manifest) if manifest.is_webdataset else _tables(manifest):
        files.append(entry)
        record_sets += [records] if records else []
    names = Counter(records["name"] for records in record_sets)
    repeated = [name for name, count in names.items() if count > 1]
    if repeated:
        raise InputError(f"croissant.json would have two record sets {', '.join(repeated)}: rename it")
    document = {
        "@context": read_json(CONTEXT) | NAMESPACES,
        "@type": "sc:Dataset",
        "conformsTo": CONFORMS_TO,
        **_about_dataset(manifest),
        "distribution": files,
        "recordSet": record_sets,
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _about_dataset(manifest: Manifest) -> Json:
    """Describe the dataset without its files and records; missing answers are left out."""
    answers = manifest.datasheet
    rai = {
        f"rai:{name}": " ".join(answers[key] for key in keys if key in answers) for name, keys in RAI.items()
    }
    rai["rai:dataCollectionMissingData"] = " ".join(
        f"{count:,} left out of {base.name}: {reason}."
        for base in manifest.bases
        for reason, count in by_reason(base.dropped).items()
    )
    more: Json = {name: text for name, text in rai.items() if text} | _provenance(manifest)
    # A manifest knows no more of its creators than their names.
    kinds = {name: "Organization" if name.startswith("The ") else "Person" for name in manifest.creators}
    if "funding" in answers:
        more["funding"] = {"@type": "sc:Grant", "description": answers["funding"]}
    if tasks := problems(manifest, ROLE_TYPES):
        more["subjectOf"] = tasks
    licenses = conjuncts(manifest.license)
    return {
        "name": manifest.name,
        "alternateName": manifest.title,
        "description": " ".join([manifest.summary, answers.get("instances", "")]).strip(),
        "url": f"https://huggingface.co/datasets/shift/{manifest.name}",
        "version": manifest.version,
        "identifier": manifest.content_id,
        "datePublished": manifest.released,
        "isLiveDataset": False,
        "license": [_license(name) for name in licenses],
        "usageInfo": usage.usage(licenses),
        "creator": [{"@type": f"sc:{kind}", "name": name} for name, kind in kinds.items()],
        "citeAs": manifest.citation,
        "keywords": ["distribution shift", manifest.family, manifest.roles.modality, "shiftdata"],
        **more,
    }


def _provenance(manifest: Manifest) -> Json:
    """Return the content, by licence and attribution, the other works behind examples, and the steps."""
    sources: list[Json] = [
        {"@type": "prov:Entity", "prov:label": credit.attribution, "license": _license(credit.license)}
        for credit in manifest.credits
    ]
    if manifest.more_credits:
        about = f"{manifest.more_credits:,} more, which {ATTRIBUTION} lists."
        sources.append({"@type": "prov:Entity", "prov:label": about})
    for work in manifest.materials:
        about = f"{work.name}: {work.attribution}"
        entity = {"@type": "prov:Entity", "prov:label": about, "description": f"A {work.kind}. {work.how}"}
        sources.append(entity | {"license": [_license(name) for name in conjuncts(work.license)]})
    derived: Json = {"prov:wasDerivedFrom": sources} if sources else {}
    if (provenance := manifest.provenance) is None:
        return derived
    made = steps(manifest, provenance.activities)
    return derived | {"rai:hasSyntheticData": provenance.synthetic, "prov:wasGeneratedBy": made}


def _license(name: str) -> str:
    """Return the page of a licence; custom terms, or a choice between several, have none."""
    has_page = re.fullmatch(r"(?!LicenseRef-)[A-Za-z0-9.+-]+", name)
    return f"https://spdx.org/licenses/{name}.html" if has_page else name


def _named_columns(manifest: Manifest) -> dict[str, tuple[str, str, Sequence[str]]]:
    """Return, for each column of ids, the record set of their names, its description, and the names."""
    nuisance = manifest.roles.nuisance
    named: dict[str, tuple[str, str, Sequence[str]]] = {
        "label": ("labels", "The classes.", manifest.labels),
        nuisance: (f"{nuisance}s", f"The {nuisance}s: what shifts.", manifest.nuisances),
    }
    for column, feature in manifest.roles.example.items():
        if not isinstance(feature, str):
            named[column] = (f"{column}_values", f"The categories of the feature `{column}`.", feature)
    return named


def _enumerations(manifest: Manifest) -> Iterator[Json]:
    """Yield the record sets whose records are in croissant.json itself."""
    fields: dict[str, tuple[Kind, str]] = {
        "name": ("sc:Text", "The name."),
        "url": (["sc:URL", "cr:Split"], "What Croissant calls it."),
    }
    roles = {name: rows.roles[0] for split in manifest.canonical_splits for name, rows in split.sets.items()}
    roles |= {name: names[0] for base in manifest.bases for name, names in base.roles.items()}
    splits = ((name, ROLE_TYPES[role]) for name, role in ({**roles, **SPLIT_ROLES}).items())
    about = "The splits of the files (no origin is in two) and the sets of canonical splits."
    yield _enumeration("splits", about, fields, splits, "cr:Split")
    fields = {"id": ("sc:Integer", "The number in the files."), "name": fields["name"]}
    for name, about, values in _named_columns(manifest).values():
        yield _enumeration(name, about, fields, enumerate(values), "sc:Enumeration")


def _enumeration(
    name: str,
    about: str,
    fields: Mapping[str, tuple[Kind, str]],
    rows: Iterable[tuple[object, str]],
    data_type: str,
) -> Json:
    listed = [_field_of(f"{name}/{field}", kind, text) for field, (kind, text) in fields.items()]
    data = [dict(zip((field["@id"] for field in listed), row, strict=True)) for row in rows]
    return _record_set(name, about, listed, next(iter(fields))) | {"dataType": data_type, "data": data}


def _tables(manifest: Manifest) -> Iterator[tuple[Json, Json]]:
    """Yield the files with records, and their record sets: shards, the metadata of splits, frozen keys."""
    roles, default = manifest.roles, manifest.default_base
    plain = columns(roles.nuisance)
    whole = plain | {column: example_type(feature) for column, feature in roles.example.items()}
    for base in manifest.bases if manifest.pixels_included else ():
        for path in sorted(path for path in manifest.files if path.startswith(f"data/{base.name}/")):
            name = path.removeprefix("data/").removesuffix(".parquet")
            about = f"{base.summary} {manifest.files[path].rows:,} of {_counts(base.splits)}."
            yield _records(manifest, path, name, about, whole)
    described = plain | name_columns(roles.nuisance) | POINTER_COLUMNS
    for path in sorted(path for path in manifest.files if path.startswith(f"metadata/{default}/")):
        name = f"metadata/{path.rpartition('/')[2].removesuffix('.parquet')}"
        about = f"The rows of `{default}` without the example, and where it lies."
        yield _records(manifest, path, name, about, described)
    keys = dict(zip(FROZEN.names, FROZEN.types, strict=True))
    for split in manifest.canonical_splits:
        if (path := protocol_file(split.name)) in manifest.files:  # not of a draft
            yield _records(manifest, path, split.name, _about(split), keys)


def _records(
    manifest: Manifest, path: str, name: str, about: str, kinds: Mapping[str, pa.DataType]
) -> tuple[Json, Json]:
    """Describe a Parquet file, and make its record set; ids link to the lists of their names."""
    links = {column: f"{names}/id" for column, (names, *_) in _named_columns(manifest).items()}
    links["split"], meanings = "splits/name", _meanings_of(manifest)
    fields = []
    for column, arrow_type in kinds.items():
        kind = TYPES.get(arrow_type, "sc:Integer")
        source: Json = {"fileObject": {"@id": path}, "extract": {"column": column}}
        if arrow_type == FEATURE_TYPES["image"]:
            source["transform"] = {"jsonPath": "bytes"}
        field = _field_of(f"{name}/{column}", kind, meanings[column]) | {"source": source}
        if column in links:
            field["cr:annotation"] = _link_of(field, links[column])
        if column in EQUIVALENT:
            field["equivalentProperty"] = EQUIVALENT[column]
        if column == "label":
            field["dataType"] = [kind, "cr:Label"]
        fields.append(field)
    return _file_object(manifest, path), _record_set(name, about, fields, "key")


def _tars(manifest: Manifest) -> Iterator[tuple[Json, Json | None]]:
    """Yield the tars of each set, and the members of their samples with one extension."""
    for base in manifest.bases:
        for name in base.splits:
            tars = data_files(manifest.files, base.name, name)
            yield from ((_file_object(manifest, tar), None) for tar in tars)
            for member in manifest.sample:
                if not (member == "cls" and base.hides_labels(name)):
                    yield _members(manifest, base, name, member, tars)


def _members(
    manifest: Manifest, base: Base, name: str, member: str, tars: Sequence[str]
) -> tuple[Json, Json | None]:
    """Describe the members of a set with one extension: a set of files, and records with the samples' keys.

    Members `json` have no records, since mlcroissant reads none in archives.
    """
    identifier = f"{base.name}/{name}.{member}"
    about = f"{MEMBERS.get(member, 'The examples')} of {_about_set(base, name)}"
    file_set = {
        "@type": "cr:FileSet",
        "@id": f"{identifier}-files",
        "name": f"{identifier}-files",
        "description": about,
        "containedIn": [{"@id": tar} for tar in tars],
        "encodingFormat": MEDIA.get(member, "image/*"),
        "includes": f"*.{member}",
    }
    if member == "json":
        return file_set, None
    files, meanings = {"fileSet": {"@id": f"{identifier}-files"}}, _meanings_of(manifest)
    stem = {"extract": {"fileProperty": "filename"}, "transform": {"regex": rf"^(.+)\.{member}$"}}
    key = _field_of(f"{identifier}/key", "sc:Text", "The key of the sample.") | {"source": files | stem}
    source = {"source": files | {"extract": {"fileProperty": "content"}}}
    if member == "cls":
        field = _field_of(f"{identifier}/label", "sc:Integer", meanings["label"])
        link = _link_of(field | source, "labels/id")
        field |= {"dataType": ["sc:Integer", "cr:Label"], "cr:annotation": link}
    else:
        modality = manifest.roles.modality
        kind = "sc:ImageObject" if modality == "image" else "sc:Text"
        field = _field_of(f"{identifier}/{modality}", kind, meanings[modality])
    return file_set, _record_set(identifier, about, [key, field | source], "key")


def _about_set(base: Base, name: str) -> str:
    """Describe a set in tars; of a task also its role, and the protocol that chose its rows."""
    about = f"`{base.name}/{name}`, {base.splits[name].rows:,} samples. {base.summary}"
    if base.task is None:
        return about
    hidden = " Its keys are hashed, and its labels are hidden." if base.hides_labels(name) else ""
    return (
        f"{about} The role of the set is {' and '.join(base.roles[name])}; its rows are of the base "
        f"`{base.task.base}`, chosen by {base.protocol}.{hidden}"
    )


def _about(split: CanonicalSplit) -> str:
    rule = f"{split.summary} Keys of rows of `{split.base}`, chosen by {split.protocol}"
    filters = {name: rows.filters for name, rows in split.sets.items() if rows.filters is not None}
    where = "; ".join(
        f"{name} {json.dumps(clauses, ensure_ascii=False)}" for name, clauses in filters.items()
    )
    where = where or f"none, {next((rows.reason for rows in split.sets.values()), 'not built')}."
    where = where if len(where) <= LONGEST_FILTERS else f"see {FILE_NAME}"
    sizes = _counts({name: rows.size for name, rows in split.sets.items()})
    return " ".join([f"{rule}: {sizes}.", *(f"{note}." for note in split.notes), f"Filters: {where}"])


def _counts(splits: Mapping[str, Split]) -> str:
    return ", ".join(f"{split.rows:,} {name}" for name, split in splits.items()) + " rows"


def _meanings_of(manifest: Manifest) -> dict[str, str]:
    roles = manifest.roles
    meanings = MEANINGS | {roles.nuisance: MEANINGS["nuisance"]}
    meanings[f"{roles.nuisance}_name"] = MEANINGS["nuisance_name"]
    if roles.modality == "table":
        for column, feature in roles.example.items():
            meanings[column] = MEANINGS["feature" if isinstance(feature, str) else "category"]
    if manifest.hidden is not None:
        for column in manifest.hidden.columns:
            meanings[column] += " Null where the publisher keeps the label."
    values = {"nuisance": roles.nuisance, "nuisances": len(manifest.nuisances), "base": manifest.default_base}
    return {column: text.format(column=column, **values) for column, text in meanings.items()}


def _record_set(name: str, about: str, fields: Sequence[Json], key: str) -> Json:
    """Make a record set whose records the field `key` names."""
    entry = {"@type": "cr:RecordSet", "@id": name, "name": name, "description": about}
    return entry | {"key": {"@id": f"{name}/{key}"}, "field": fields}


def _field_of(identifier: str, kind: Kind, about: str) -> Json:
    """Make a field, without its source."""
    name = identifier.rsplit("/", 1)[-1]
    return {"@type": "cr:Field", "@id": identifier, "name": name, "description": about, "dataType": kind}


def _file_object(manifest: Manifest, path: str) -> Json:
    record, encoding = manifest.files[path], ENCODINGS[path.rpartition(".")[2]]
    entry = {"@type": "cr:FileObject", "@id": path, "name": path, "contentUrl": path, "sha256": record.sha256}
    return entry | {"contentSize": f"{record.bytes} B", "encodingFormat": encoding}


def _link_of(field: Json, target: str) -> Json:
    """Return an annotation that links a field to the entry of another record set that it names.

    A field with its own `references` makes mlcroissant 1.1 join: it keeps every shard in memory, and yields
    no rows when it is read a second time.
    """
    about = f"The entry of `{target.split('/')[0]}` that it names."
    link = _field_of(f"{field['@id']}/entry", field["dataType"], about)
    return link | {"source": field["source"], "references": {"field": {"@id": target}}}
