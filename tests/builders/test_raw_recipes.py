"""Each recipe of a public dataset on its replica: from the raw files to `datasets`, protocol and evaluate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import datasets
import pyarrow.parquet as pq
import pytest

import shiftdata as sd
from builders.make.build import build
from builders.raw.album import RawAlbum
from builders.raw.checking import check
from builders.raw.sources import CONTENT, source
from builders.recipe_files import load_recipe
from shiftdata.baselines.training import Training
from shiftdata.evaluation.protocols.halves import RLSBENCH
from tests.builders.replicas import (
    acs,
    cifar,
    cns_bench,
    digits,
    domain_trees,
    imagenet,
    mimic,
    nico_domainnet,
    pacs,
    sma,
    tables,
    terra_incognita,
    wilds,
)

#: Of each recipe what writes its replica, and gives how many rows each nuisance must have.
REPLICAS: Mapping[str, Callable[[Path], Mapping[str, int]]] = {
    "camelyon17": wilds.camelyon17,
    **cifar.REPLICAS,
    "civilcomments": wilds.civilcomments,
    "cns_bench": cns_bench.make,
    "digits": digits.make,
    "domainnet": nico_domainnet.domainnet,
    "fmow": wilds.fmow,
    **imagenet.REPLICAS,
    "mimic_readmission": mimic.make,
    "nico": nico_domainnet.nico,
    "office31": domain_trees.office31,
    "office_home": domain_trees.office_home,
    "pacs": pacs.make,
    "retiring_adults": acs.make,
    "sma_awa": sma.make,
    "sma_brd_remade": sma.make_meta_album,
    "sviro": domain_trees.sviro,
    **tables.REPLICAS,
    "terra_incognita": terra_incognita.make,
    "visda": domain_trees.visda,
    "vlcs": domain_trees.vlcs,
}


#: One of each kind of raw files is tried in every run, but for those with tests of their own that build it;
#: `make test-slow` tries all.
OF_EACH_KIND = {
    "cifar10",
    "civilcomments",
    "entity13",
    "pacs",
    "sma_awa",
}


def some(names: Iterable[str]) -> list[Any]:
    return [name if name in OF_EACH_KIND else pytest.param(name, marks=pytest.mark.slow) for name in names]


@pytest.fixture(scope="module", params=some(REPLICAS))
def built(request, tmp_path_factory) -> tuple[Path, Mapping[str, int]]:
    folder = tmp_path_factory.mktemp(request.param)
    counts = REPLICAS[request.param](folder / "raw")
    return build(f"{request.param}={folder / 'raw'}", folder, workers=1, quiet=True), counts


def test_every_example_of_the_replica_is_a_row_of_its_nuisance(built):
    folder, counts = built
    manifest = sd.open_dataset(folder).manifest
    rows = pq.read_table(folder / "metadata" / manifest.default_base)
    nuisances = rows[manifest.roles.nuisance].to_pylist()
    assert Counter(manifest.nuisances[number] for number in nuisances) == dict(counts)


def test_plain_datasets_loads_it(built):
    folder, counts = built
    manifest = sd.open_dataset(folder).manifest
    roles, cache = manifest.roles, str(folder.parent / "cache")
    loaded = datasets.load_dataset(str(folder), manifest.default_base, cache_dir=cache)
    assert sum(split.num_rows for split in loaded.values()) == sum(counts.values())
    assert roles.modality != "image" or all(row["image"].size >= (8, 8) for row in loaded["train"])
    assert all(any(row[name] is not None for name in roles.example) for row in loaded["train"])


@pytest.mark.filterwarnings("ignore::shiftdata.evaluation.tasks.LeakWarning")
def test_its_first_protocol_gives_a_task_that_can_be_evaluated(built):
    folder, _ = built
    split = sd.open_dataset(folder).manifest.canonical_splits[0]
    task = sd.task(folder, split.name)
    test = next(name for name, one in task.sets.items() if "test" in one.roles)
    result = task.evaluate(task.table(test)["label"].to_pylist(), test)
    assert result.overall == 1


@pytest.mark.parametrize("built", some(RLSBENCH), indirect=True)
def test_a_pair_of_rlsbench_is_adapted_to_and_evaluated(built):
    """The last target, its labels shifted: replicas are small, and so rows are drawn again."""
    folder, _ = built
    protocol = sd.rlsbench(folder.name, alphas=[10.0], seeds=[0])[-1]
    task = sd.task(folder, replace(protocol, replacement=True), on_empty="report")
    for method in ("erm", "rs+dann", "pseudo-label"):
        run = sd.train(task, method, training=Training(steps=2, batch=8))
        assert sorted(run.predictions()) == sorted(task.keys("target_test"))
        assert run.evaluate().overall == task.evaluate(run.predictions()).overall


def test_a_check_of_the_raw_files_counts_the_same(built):
    folder, counts = built
    name, raw = folder.name, folder.parent.parent / "raw"
    album = load_recipe(name).album
    assert isinstance(album, RawAlbum)
    seen = dict(check(source(name), album, raw).by_domain())
    content = seen.pop(CONTENT, 0)
    assert (seen or dict.fromkeys(counts, content)) == dict(counts)
