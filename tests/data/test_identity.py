"""What identities depend on: the recipe's on fields and code, the content's on rows, names and drops."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from builders.make.build import build
from builders.recipe import Base, Recipe
from builders.recipe_files import load_recipe
from builders.sample import Sample
from builders.shifts.steps import OnGround
from shiftdata.data.format.identity import base_content_id, dropped_id
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.schema import SPLITS
from shiftdata.errors import InputError

# --- recipe_id and pixels_id ----------------------------------------------------------------------------


@pytest.fixture
def loaded(recipe) -> Recipe:
    return load_recipe(str(recipe))


@pytest.mark.parametrize("part", ["album", "shift", "encoding", "step"])
def test_a_code_version_changes_both_ids(loaded, part, monkeypatch):
    before = loaded.recipe_id(), loaded.pixels_id()
    monkeypatch.setattr(OnGround if part == "step" else type(getattr(loaded, part)), "code_version", 99)
    assert loaded.recipe_id() != before[0]
    assert loaded.pixels_id() != before[1]


@pytest.mark.parametrize("version", [None, "1", True, 1.0])
def test_a_part_needs_an_integer_code_version(loaded, version, monkeypatch):
    kind = type(loaded.shift)
    monkeypatch.setattr(kind, "code_version", version)
    with pytest.raises(
        InputError, match=rf"class {kind.__name__} needs `code_version: ClassVar\[int\] = 1`: raise it when"
    ):
        loaded.recipe_id()


def plain_step(samples: Iterator[Sample]) -> Iterator[Sample]:
    return samples


@pytest.mark.parametrize("step", [plain_step, lambda samples: samples])
def test_a_function_is_refused_as_a_step(loaded, step):
    with pytest.raises(InputError, match=r"is the function .*: write a frozen dataclass"):
        replace(loaded, prepare=(step,)).pixels_id()


@dataclass(frozen=True)
class Around:
    """A part with a fingerprint of its own, around another part."""

    code_version: ClassVar[int] = 1

    inner: OnGround

    def __call__(self, samples: Iterator[Sample]) -> Iterator[Sample]:
        return self.inner(samples)

    def fingerprint(self) -> str:
        return "always the same"


def test_a_fingerprint_and_the_code_versions_of_inner_parts_both_count(loaded, monkeypatch):
    def ids(size: int) -> tuple[str, str]:
        step = replace(loaded, prepare=(Around(OnGround(size=size)),))
        return step.recipe_id(), step.pixels_id()

    first = ids(24)
    assert len({*first, *ids(32)}) == 4
    monkeypatch.setattr(OnGround, "code_version", 2)
    assert not set(first) & set(ids(24))
    monkeypatch.setattr(OnGround, "code_version", 1)
    monkeypatch.setattr(Around, "fingerprint", lambda self: "another")
    assert not set(first) & set(ids(24))


def test_bases_and_protocols_change_the_recipe_but_no_pixel(loaded):
    others = [
        replace(loaded, seed=7),
        replace(loaded, protocols=loaded.protocols[:1]),
        replace(loaded, bases=(*loaded.bases, Base(name="small", summary="", per_group=10))),
        replace(loaded, default_base="extended"),
    ]
    assert len({recipe.recipe_id() for recipe in [loaded, *others]}) == 5
    assert {recipe.pixels_id() for recipe in [loaded, *others]} == {loaded.pixels_id()}
    assert replace(loaded, version="2.0.0").recipe_id() == loaded.recipe_id()


def test_the_description_changes_no_id(loaded):
    other = replace(loaded, title="Other", summary="Other.", released="2027-01-01", expected=())
    other = replace(other, bases=tuple(replace(base, summary="Other.") for base in loaded.bases))
    assert (other.recipe_id(), other.pixels_id()) == (loaded.recipe_id(), loaded.pixels_id())


def test_a_build_with_another_code_version_uses_no_spool_of_the_last(recipe, tmp_path):
    own = tmp_path / "recipe.py"
    (tmp_path / "pictures").symlink_to(recipe.parent / "pictures")
    own.write_text(recipe.read_text())
    out = tmp_path / "out"
    build(str(own), out, bases=["mini"], workers=1, quiet=True, keep_spool=True)
    own.write_text(
        own.read_text().replace("code_version: ClassVar[int] = 1", "code_version: ClassVar[int] = 2")
    )
    with pytest.raises(InputError, match="was built from another recipe"):
        build(str(own), out, bases=["mini"], workers=1, quiet=True)
    build(str(own), out, bases=["mini"], workers=1, quiet=True, keep_spool=True, replace=True)
    spools = sorted(out.glob(".work/tiny/spool-*"))
    assert len(spools) == 2
    blocks = [sorted(path.name for path in spool.glob("*/*.arrow")) for spool in spools]
    assert blocks[0] == blocks[1] != []


# --- content_id -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def content(tiny) -> tuple[pa.Table, Manifest]:
    tables = [pq.read_table(tiny / f"metadata/mini/{split}.parquet") for split in SPLITS]
    return pa.concat_tables(tables), Manifest.read(tiny)


def identity(rows: pa.Table, manifest: Manifest, **changes: object) -> str:
    return base_content_id(rows, manifest, replace(manifest.base("mini"), **changes))


def test_neither_order_nor_chunks_nor_dictionaries_count(content):
    rows, manifest = content
    expected = identity(rows, manifest)
    shuffled = rows.take(pa.array(np.random.default_rng(0).permutation(len(rows))))
    assert identity(shuffled, manifest) == expected
    pieces = [shuffled.slice(start, 7) for start in range(0, len(rows), 7)]
    assert identity(pa.concat_tables(pieces), manifest) == expected
    coded = shuffled
    for name in ("split", "license", "attribution", "origin"):
        column = shuffled[name].dictionary_encode()
        coded = coded.set_column(coded.schema.get_field_index(name), name, column)
    assert identity(coded, manifest) == expected
    hashes = shuffled["sha256"].cast(pa.binary(32))
    coded = coded.set_column(coded.schema.get_field_index("sha256"), "sha256", hashes)
    assert identity(coded, manifest) == expected
    assert identity(coded.select(reversed(coded.column_names)), manifest) == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("key", "other"),
        ("label", 3),
        ("style", 4),
        ("style", None),
        ("severity", 0.5),
        ("severity", None),
        ("origin", "bar/other"),
        ("split", "test"),
        ("fold", 99),
        ("quantile", 0.123),
        ("license", "MIT"),
        ("attribution", "somebody"),
        ("sha256", bytes(32)),
    ],
)
def test_every_column_of_the_identity_counts(content, name, value):
    rows, manifest = content
    values = rows[name].to_pylist()
    values[next(row for row, now in enumerate(values) if now != value)] = value
    column = pa.array(values, rows.schema.field(name).type)
    other = rows.set_column(rows.schema.get_field_index(name), name, column)
    assert identity(other, manifest) != identity(rows, manifest)


def test_a_value_that_moves_to_the_next_row_counts(content):
    rows, manifest = content
    texts = rows["origin"].to_pylist()
    texts[0], texts[1] = texts[0] + texts[1][:1], texts[1][1:]
    other = rows.set_column(rows.schema.get_field_index("origin"), "origin", pa.array(texts))
    assert identity(other, manifest) != identity(rows, manifest)


def test_the_lists_of_names_count_in_their_order(content):
    rows, manifest = content
    expected = identity(rows, manifest)
    for changed in (
        replace(manifest, labels=manifest.labels[::-1]),
        replace(manifest, nuisances=manifest.nuisances[::-1]),
        replace(manifest, labels=[*manifest.labels, "more"]),
        replace(manifest, labels=[*manifest.labels, "a"], nuisances=manifest.nuisances[1:]),
    ):
        assert identity(rows, changed) != expected


def test_what_was_dropped_counts_with_its_reason(content):
    rows, manifest = content
    drops = [[], [("a", "too small")], [("a", "empty")], [("b", "empty")], [("a", "empty"), ("b", "empty")]]
    ids = [identity(rows, manifest, dropped_id=dropped_id(pairs)) for pairs in drops]
    assert ids[0] == identity(rows, manifest)
    assert len(set(ids)) == len(ids)
    assert dropped_id(drops[-1]) == dropped_id(drops[-1][::-1])
