"""The four datasets of letters by the code that makes them: a few letters, fonts and rows."""

from __future__ import annotations

import textwrap
from pathlib import Path

import numpy as np
import pytest

import shiftdata as sd
from builders.items import ItemTable
from builders.make import assign
from builders.make.build import build
from builders.make.check import check
from builders.recipe_files import load_recipe
from shiftdata.data.format.manifest import Manifest
from shiftdata.evaluation.protocols import GroupFairness

SMALL = """
    from dataclasses import replace

    from builders.albums.glyphs import GlyphAlbum
    from builders.recipe import Base
    from builders.recipe_files import load_recipe
    from builders.shifts.steps import Domains
    from shiftdata.evaluation.protocols import GroupFairness, LeaveOneDomainOut

    WHOLE = load_recipe("{name}")
    RECIPE = replace(
        WHOLE,
        name="small",
        album=replace(WHOLE.album, letters=("A", "H", "O", "S"), classes={classes}),
        {options}
        expected=(),
    )
"""
CLASSES = ("blackletter", "slab")
#: What is smaller in each, and a task that is made of it.
OPTIONS = {
    "sma_glyphs": (
        "bases=(Base(name='mini', summary='7 faces.', per_group=7),), default_base='mini',"
        "protocols=(GroupFairness(k=2, mu=0.2),),",
        {"of": "group-fairness", "k": 2, "mu": 0.2},
    ),
    "dom_glyphs": (
        f"shift=Domains(names={CLASSES}), protocols=(LeaveOneDomainOut(test='blackletter'),),",
        {"of": "leave-one-domain-out", "test": "blackletter"},
    ),
    "nico_glyphs": (
        "bases=(Base(name='mini', summary='4 faces.', per_group=4),), default_base='mini', protocols=(),",
        {"of": "leave-one-domain-out", "test": "grass"},
    ),
    "cns_glyphs": (
        "bases=(Base(name='mini', summary='4 faces.', per_group=4),), protocols=(),"
        "shift=replace(WHOLE.shift, names=('snow', 'painting'), seeds=(0,)),",
        {"of": "continuous", "shifts": "snow"},
    ),
}


@pytest.fixture(scope="module", params=OPTIONS)
def small(request, tmp_path_factory) -> tuple[str, Path]:
    path = tmp_path_factory.mktemp(request.param) / "small.py"
    options, _ = OPTIONS[request.param]
    text = textwrap.dedent(SMALL).format(name=request.param, classes=CLASSES, options=options)
    path.write_text(text)
    return request.param, build(str(path), path.parent, workers=1, quiet=True)


@pytest.mark.slow
def test_a_small_one_is_whole_and_becomes_a_task(small):
    name, folder = small
    manifest = Manifest.read(folder)
    assert manifest.labels == ["A", "H", "O", "S"]
    assert check(folder, load_recipe(str(folder.parents[1] / "small.py"))) == []
    task = sd.task(folder, **OPTIONS[name][1])
    assert all(len(task.rows(name)) for name in task.sets)


def test_every_group_of_a_fairness_split_has_60_test_rows_at_least():
    recipe = load_recipe("sma_glyphs")
    base = recipe.base(recipe.default_base)
    items = ItemTable.of(recipe.album.items())
    fold_of = assign.folds(items)
    picked = assign.pick(items, fold_of, base)
    tested = items.take(picked[fold_of[picked] >= 70])
    letters, counts = np.unique([item.label for item in tested], return_counts=True)
    assert len(letters) == 20
    assert counts.min() >= 60
    assert any(isinstance(protocol, GroupFairness) and protocol.k == 8 for protocol in recipe.protocols)
