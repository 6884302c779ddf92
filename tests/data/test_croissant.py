"""croissant.json, read back by mlcroissant: no complaint, no network, and the rows that pyarrow reads.

What mlcroissant makes of the values: text is bytes, a null is None, a picture is a PIL image in its own mode.
It reads through pandas, which holds a column of integers with nulls as floats: exact up to 2**53.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import socket
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import rdflib
from PIL import Image
from rdflib import RDF, SDO

from builders.albums.glyphs import ASSETS
from builders.datasheet import Datasheet
from builders.describe.provenance import provenance_of
from builders.describe.renderings import draft
from builders.recipe_files import load_recipe, recipe_of
from builders.shifts.styles.network import GRAPHS
from shiftdata.data.format.croissant import LONGEST_FILTERS, render_croissant
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.schema import SPLITS
from shiftdata.errors import InputError
from shiftdata.files import sha256_of
from tests.shared import dataset_of

CR = rdflib.Namespace("http://mlcommons.org/croissant/")
PROV = rdflib.Namespace("http://www.w3.org/ns/prov#")
ODRL = rdflib.Namespace("http://www.w3.org/ns/odrl/2/")
AWKWARD = [
    'a "quoted" one',
    "dots. and, commas",
    "éclair ☃ 雪",
    "C:\\back",
    "<b>&amp;</b>",
    "{brace}",
    "@type",
]


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(*_: object) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", connect)


@pytest.fixture(scope="session")
def manifest(tiny: Path) -> Manifest:
    return Manifest.read(tiny)


@pytest.fixture
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return dataset_of(tmp_path_factory, "table")


def opened(repo: Path | str) -> Any:
    """The dataset as mlcroissant reads it, without errors or warnings."""
    import mlcroissant as mlc

    dataset = mlc.Dataset(jsonld=str(Path(repo) / "croissant.json"))
    assert not dataset.metadata.ctx.issues.errors
    assert not dataset.metadata.ctx.issues.warnings
    return dataset


def records(dataset: Any, name: str, split: str | None = None) -> Iterator[dict[str, Any]]:
    """The records of a set, or of all files of a base, by the names of its columns."""
    for record_set in dataset.metadata.record_sets:
        if record_set.id == name or record_set.id.startswith(f"{name}/{split or ''}"):
            for record in dataset.records(record_set.id):
                yield {column.removeprefix(f"{record_set.id}/"): value for column, value in record.items()}


def in_order(rows: Iterator[dict[str, Any]] | list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows by key, in a form that tells types apart and compares pictures by pixels."""
    return sorted(
        ({name: plain(value) for name, value in row.items()} for row in rows), key=lambda row: row["key"]
    )


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        value = Image.open(io.BytesIO(value["bytes"]))
    if isinstance(value, Image.Image):
        return value.mode, np.asarray(value).tolist()
    return type(value), value


def stored(repo: Path, pattern: str) -> list[dict[str, Any]]:
    """The rows of files as pyarrow reads them, texts as bytes."""
    tables = [pq.read_table(path) for path in sorted(repo.glob(pattern))]
    rows = pa.concat_tables(tables).to_pylist()
    return [{k: v.encode() if isinstance(v, str) else v for k, v in row.items()} for row in rows]


def described(manifest: Manifest) -> dict[str, Any]:
    """A rendering as JSON."""
    return dict(json.loads(render_croissant(manifest)))


@pytest.mark.parametrize("kind", ["text", "table"])
def test_metadata_of_texts_and_tables_with_its_nulls(kind, tmp_path_factory):
    folder = dataset_of(tmp_path_factory, kind)
    base = Manifest.read(folder).default_base
    assert in_order(records(opened(folder), "metadata")) == in_order(
        stored(folder, f"metadata/{base}/*.parquet")
    )


def test_metadata_says_where_the_bytes_lie(tiny):
    assert in_order(records(opened(tiny), "metadata")) == in_order(stored(tiny, "metadata/mini/*.parquet"))
    row = next(records(opened(tiny), "metadata", "test"))
    shard = next(tiny.glob(f"data/mini/test-{row['shard']:05d}-*.parquet")).read_bytes()
    assert hashlib.sha256(shard[row["offset"] :][: row["length"]]).digest() == row["sha256"]


def test_a_split_alone_opens_no_other_file(copy):
    for path in copy.glob("data/mini/t*.parquet"):
        path.write_bytes(b"not Parquet")
    assert len(list(records(opened(copy), "mini", "validation"))) == 80


def test_rows_can_be_read_again(tiny):
    dataset = opened(tiny)
    next(records(dataset, "mini"))
    assert [len(list(records(dataset, "mini"))) for _ in range(2)] == [400, 400]


def test_enumerations_list_every_name(copy, manifest, table):
    awkward = replace(manifest, labels=AWKWARD, nuisances=AWKWARD[::-1])
    (copy / "croissant.json").write_text(render_croissant(awkward), encoding="utf-8")
    dataset = opened(copy)
    for name, names in {"labels": AWKWARD, "styles": AWKWARD[::-1]}.items():
        assert list(records(dataset, name)) == [{"id": id_, "name": text} for id_, text in enumerate(names)]
    kinds = ["cr:TrainingSplit", "cr:ValidationSplit", "cr:TestSplit"]
    splits = [{"name": name, "url": url} for name, url in zip(SPLITS, kinds, strict=True)]
    assert list(records(dataset, "splits")) == splits
    assert [row["name"] for row in records(opened(table), "smoker_values")] == ["no", "quit", "yes"]


def test_fields_link_to_what_their_values_name(table, tiny):
    def links(folder: Path, name: str) -> dict[str, str]:
        record_set = next(it for it in opened(folder).metadata.record_sets if it.id.startswith(name))
        annotated = {field.name: field.annotations[0] for field in record_set.fields if field.annotations}
        return {name: link.references.field for name, link in annotated.items()}

    named = {
        "split": "splits/name",
        "label": "labels/id",
        "clinic": "clinics/id",
        "smoker": "smoker_values/id",
    }
    assert links(table, "all/") == named
    assert links(tiny, "gf_k2_mu10") == {"split": "splits/name"}


def test_labels_are_labels_and_rows_have_licences(tiny):
    mini = next(it for it in opened(tiny).metadata.record_sets if it.id.startswith("mini/"))
    of = {field.name: field for field in mini.fields}
    assert "http://mlcommons.org/croissant/Label" in {str(kind) for kind in of["label"].data_types}
    assert of["license"].equivalentProperty == ["sc:license"]


def test_the_dataset_is_described(tiny, manifest):
    metadata = opened(tiny).metadata
    assert metadata.name == "tiny"
    assert metadata.version == manifest.version
    assert metadata.date_published.date().isoformat() == manifest.released
    assert metadata.url == "https://huggingface.co/datasets/shift/tiny"
    assert metadata.license == ["https://spdx.org/licenses/CC0-1.0.html"]
    assert metadata.cite_as == manifest.citation
    assert [creator.name for creator in metadata.creators] == list(manifest.creators)
    assert metadata.ctx.is_live_dataset is False
    assert metadata.conforms_to[0] == "http://mlcommons.org/croissant/1.1"


def test_licences_and_creators(manifest):
    terms = "CC-BY-4.0 AND LicenseRef-Mine AND (MIT OR ISC)"
    document = described(replace(manifest, license=terms, creators=["Ann Ö.", "The Group"]))
    assert document["license"] == [
        "https://spdx.org/licenses/CC-BY-4.0.html",
        "LicenseRef-Mine",
        "(MIT OR ISC)",
    ]
    people = [{"@type": "sc:Person", "name": "Ann Ö."}, {"@type": "sc:Organization", "name": "The Group"}]
    assert document["creator"] == people


def test_every_answer_of_the_datasheet_is_told(copy, manifest):
    sheet = {field.name: f"About {field.name}." for field in fields(Datasheet)}
    mini = replace(manifest.base("mini"), dropped={"not a picture": 1, "too small": 1200})
    document = replace(manifest, datasheet=sheet, bases=[mini])
    (copy / "croissant.json").write_text(render_croissant(document), encoding="utf-8")
    metadata = opened(copy).metadata
    assert metadata.description == f"{manifest.summary} About instances."
    assert metadata.data_collection == "About collection. About selection."
    assert metadata.data_collection_missing_data == (
        "1 left out of mini: not a picture. 1,200 left out of mini: too small."
    )
    assert metadata.data_limitations == ["About limitations. About misuses."]
    text = render_croissant(document)
    assert [name for name, answer in sheet.items() if answer not in text] == []
    assert "rai:data" not in render_croissant(replace(manifest, datasheet={}))


def test_a_protocol_tells_its_rule(manifest):
    split = manifest.canonical_splits[0]
    train = replace(split.sets["train"], filters=split.sets["train"].filters * LONGEST_FILTERS)
    long = replace(split, name="long", sets={**split.sets, "train": train})
    files = manifest.files | {"protocols/long.parquet": manifest.files["protocols/gf_k2_mu10.parquet"]}
    document = described(replace(manifest, canonical_splits=[split, long], files=files))
    of = {record_set["name"]: record_set["description"] for record_set in document["recordSet"]}
    sizes = f"{split.sets['train'].size.rows} train"
    for part in ("group-fairness k=2 mu=0.1", "requested: mu = 10 %", sizes, "quantile"):
        assert part in of["gf_k2_mu10"]
    assert of["long"].endswith("Filters: see manifest.json")


def test_equal_manifests_give_equal_bytes(tiny, manifest):
    text = render_croissant(manifest)
    assert text == render_croissant(Manifest.from_json(manifest.to_json()))
    assert text.encode() == (tiny / "croissant.json").read_bytes()
    assert text.endswith("}\n")


def test_the_context_is_the_standard_one(manifest):
    import mlcroissant as mlc
    from mlcroissant._src.core.context import CroissantVersion
    from mlcroissant._src.core.rdf import make_context

    standard = make_context(mlc.Context(conforms_to=CroissantVersion.V_1_1))
    ours = described(manifest)["@context"]
    assert ours.keys() - standard.keys() == {"prov", "duo", "odrl", "cc"}
    assert standard.items() <= ours.items()


def test_a_canonical_split_cannot_take_the_name_of_an_enumeration(manifest):
    split = replace(manifest.canonical_splits[0], name="styles")
    files = manifest.files | {"protocols/styles.parquet": manifest.files["protocols/gf_k2_mu10.parquet"]}
    with pytest.raises(InputError, match="two record sets styles: rename it"):
        render_croissant(replace(manifest, canonical_splits=[split], files=files))


def test_a_manifest_without_provenance_says_nothing_of_what_made_its_examples(manifest):
    document = described(replace(manifest, provenance=None))
    assert "rai:hasSyntheticData" not in document
    assert "prov:wasGeneratedBy" not in document
    assert [source["prov:label"] for source in document["prov:wasDerivedFrom"]] == ["made here"]
    more = described(replace(manifest, more_credits=1200))["prov:wasDerivedFrom"]
    assert more[-1]["prov:label"] == "1,200 more, which ATTRIBUTION.md lists."


@pytest.mark.parametrize(
    ("name", "synthetic"), [("emoji_names", False), ("dom_glyphs", True), ("cns_glyphs", True)]
)
def test_content_that_a_program_drew_is_synthetic(name, synthetic):
    assert provenance_of(recipe_of(name)).synthetic is synthetic


def graph_of(document: dict[str, Any]) -> rdflib.Graph:
    """The document as an independent reader of JSON-LD sees it."""
    base = "http://lab/d/croissant.json"
    return rdflib.Graph().parse(data=json.dumps(document), format="json-ld", publicID=base)


def test_the_chain_leads_from_the_encoding_to_the_weights_and_the_recipe():
    recipe = recipe_of("sma_glyphs")
    graph = graph_of(described(draft(recipe)))
    steps = set(graph.subjects(RDF.type, PROV.Activity))
    (last,) = steps - set(graph.objects(None, PROV.wasInformedBy))
    chain = list(graph.transitive_objects(last, PROV.wasInformedBy))
    assert [str(graph.value(step, PROV.label)) for step in chain] == [
        "encoding", "shift", "preprocessing", "collection",
    ]  # fmt: skip
    hashes = {graph.value(file, SDO.sha256, default="").toPython() for file in graph[chain[1] : PROV.used]}
    assert {sha256_of(file) for file in GRAPHS} < hashes
    content = {graph.value(file, SDO.sha256, default="").toPython() for file in graph[chain[-1] : PROV.used]}
    assert sha256_of(ASSETS / "outlines.zip") in content
    domainnet = {file.name: file for file in load_recipe("domainnet").album.used_files()}
    assert domainnet["sketch.zip"].url.endswith("/visda/2019/multi-source/sketch.zip")
    assert load_recipe("hub_domainnet").album.used_files() == []  # which reads a copy
    for step, part in zip(chain, [recipe.encoding, recipe.shift, *recipe.prepare, recipe.album], strict=True):
        plan = graph.value(graph.value(step, PROV.qualifiedAssociation), PROV.hadPlan)
        assert str(graph.value(plan, SDO.version)) == str(part.code_version)
        assert str(graph.value(plan, SDO.isPartOf)).endswith(recipe.recipe_id())
    changed = provenance_of(replace(recipe, encoding=replace(recipe.encoding, quality=91)))
    same = zip(provenance_of(recipe).activities, changed.activities, strict=True)
    assert [ours.parameters == theirs.parameters for ours, theirs in same] == [True, True, True, False]


@pytest.mark.parametrize(
    ("name", "permitted", "duties", "forbidden", "terms"),
    [
        ("CC0-1.0", "reproduce distribute derive", "", "", "42"),
        ("MIT", "reproduce distribute derive", "attribute", "", "42"),
        ("CC-BY-NC-SA-4.0", "reproduce distribute derive", "attribute ShareAlike", "commercialize", "42 46"),
        ("CC-BY-ND-4.0", "reproduce distribute", "attribute", "derive", "42"),
        ("LicenseRef-Mine", "", "", "", ""),
    ],
)
def test_usage_terms_follow_the_licence(manifest, name, permitted, duties, forbidden, terms):
    graph = graph_of(described(replace(manifest, license=name)))

    def actions(kind: str) -> set[str]:
        rules = graph.subjects(RDF.type, ODRL[kind])
        return {re.split("[/#]", action)[-1] for rule in rules for action in graph[rule : ODRL.action]}

    assert actions("Permission") == {*permitted.split()}
    assert actions("Duty") == {*duties.split()}
    assert actions("Prohibition") == {*forbidden.split()}
    codes = {code.toPython() for code in graph.objects(None, SDO.termCode)}
    assert codes == {f"DUO_00000{term}" for term in terms.split()}


def test_canonical_splits_are_tasks_for_others_to_solve(tiny, manifest):
    graph = graph_of(described(manifest))
    problems = {str(graph.value(node, SDO.name)): node for node in graph.subjects(RDF.type, CR.TaskProblem)}
    assert problems.keys() == {split.name for split in manifest.canonical_splits}
    split, problem = manifest.canonical_splits[0], problems[manifest.canonical_splits[0].name]
    inputs = list(graph[problem : CR.input])
    roles = {str(graph.value(node, SDO.name)): graph.value(node, RDF.type) for node in inputs}
    assert roles == {"train": CR.TrainingSplit, "validation": CR.ValidationSplit, "test": CR.TestSplit}
    keys = {graph.value(node, SDO.isPartOf) for node in inputs}
    assert {graph.value(node, RDF.type) for node in keys} == {CR.RecordSet}
    schema = graph.value(graph.value(problem, CR.output), CR.schema)
    assert {str(graph.value(field, SDO.name)) for field in graph[schema : CR.field]} == {"key", "prediction"}
    evaluation = graph.value(problem, CR.evaluation)
    assert list(split.metrics) == ["worst", "mean", "overall"]
    assert {str(name) for name in graph[evaluation : CR.metric]} == {*split.metrics}
    assert len(opened(tiny).metadata.record_sets) == len(described(manifest)["recordSet"])


def test_a_split_of_the_name_of_its_protocol_does_not_refer_to_itself(manifest):
    """mlcroissant follows such a reference without end."""
    splits = [replace(split, protocol=split.name) for split in manifest.canonical_splits]
    for entry in json.loads(render_croissant(replace(manifest, canonical_splits=splits)))["subjectOf"]:
        assert json.dumps(entry).count(f'"{entry["@id"]}"') == 1
