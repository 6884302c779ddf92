"""nico_emoji: the paper's protocols run on the rows of the whole."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

import shiftdata as sd
from builders.make import assign
from builders.recipe_files import load_recipe
from builders.shifts.contexts.domains import COMMON, unique_of
from shiftdata.data.metadata import Metadata, metadata_from_table


@pytest.fixture(scope="module")
def rows() -> Metadata:
    """The rows of `extended` as they will be published, without a picture."""
    recipe = load_recipe("nico_emoji")
    items = recipe.album.items()
    fold_of = assign.folds(items)
    picked = assign.pick(items, fold_of, recipe.base("extended"))
    made = [
        (f"{item.key}-{domain}", item.label, domain, item.origin, fold_of[item.origin])
        for item in picked
        for domain in (*COMMON, *unique_of(item.label))
    ]
    table = pa.table(
        dict(zip(("key", "label", "domain", "origin", "fold"), zip(*made, strict=True), strict=True))
    )
    names = recipe.shift.nuisances
    return metadata_from_table(table, nuisance="domain", nuisances=names, origin="origin", fold="fold")


def domains(task: sd.Task, name: str) -> Counter[str]:
    return Counter(task.metadata.nuisances[number] for number in task.table(name)["domain"].to_pylist())


@pytest.mark.parametrize(
    ("split", "trained"),
    [
        (1, {"grass", "water", "rock", "autumn", "indoor", "dim"}),
        (2, {"sand", "grass", "water", "rock", "indoor", "outdoor"}),
        (3, {"autumn", "dark", "grass", "sand", "water", "winter"}),
    ],
)
def test_classic_dg_takes_the_common_domains_alone(rows, split, trained):
    task = sd.task(rows, "classic-dg", split=split)
    assert domains(task, "train") == dict.fromkeys(trained, 20 * 90)
    assert domains(task, "validation") == dict.fromkeys(trained, 20 * 36)
    assert domains(task, "test") == dict.fromkeys(set(COMMON) - trained, 20 * 54)
    assert not task.report().leaks


@pytest.mark.parametrize("variant", ["", "compositional"])
def test_flexible_dg_has_the_domains_and_pictures_of_the_paper(rows, variant):
    task = sd.task(rows, "flexible-dg", variant=variant)
    dominant = set()
    for label in range(20):
        of = {}
        for name in task.sets:
            table = task.table(name).filter(pa.compute.field("label") == label)
            of[name] = Counter(table["domain"].to_pylist())
        fitted = of["train"] + of["validation"]
        assert sorted(fitted.values()) == [50] * 12 + [126] * 2
        assert sorted(of["test"].values()) == [50] * (4 if variant else 6)
        assert not set(fitted) & set(of["test"])
        dominant |= {rows.nuisances[domain] for domain, count in fitted.items() if count == 126}
    assert dominant <= set(COMMON)
    assert not task.report().leaks
    if variant:
        assert len(dominant) <= 4
        assert not dominant & set(domains(task, "test"))


def test_takes_share_the_origin_and_the_picture():
    recipe = load_recipe("nico_emoji")
    items = recipe.album.items()
    assert len(items) == 3 * len(recipe.album.album.items())
    assert list(items) == sorted(items, key=lambda item: item.key)
    takes = [item for item in items if item.source["concept"] == "dove" and item.source["vendor"] == "noto"]
    assert [item.source["take"] for item in takes] == [1, 2, 3]
    assert len({item.origin for item in takes}) == 1
    assert len({recipe.album.load(item).tobytes() for item in takes}) == 1
