"""The splits that papers and codes cut from files, recomputed here from the files on disk alone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import load_dataset

import shiftdata as sd
from builders.make.build import build
from shiftdata.errors import InputError
from shiftdata.evaluation.tasks import LeakWarning
from shiftdata.evaluation.verify import verify
from tests.builders.replicas import pacs

DOMAINS = ("art_painting", "cartoon", "photo", "sketch")
pytestmark = pytest.mark.filterwarnings("ignore::shiftdata.evaluation.tasks.LeakWarning")


@pytest.fixture(scope="module")
def places(tmp_path_factory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("author_splits")
    pacs.make(folder / "raw")
    return build(f"pacs={folder / 'raw'}", folder, workers=1, quiet=True), folder / "raw" / "PACS"


def files_of(built: Path, keys: list[str]) -> set[str]:
    """The files behind some keys, as `<domain>/<class>/<name>`."""
    params = pq.read_table(built / "metadata/all", columns=["key", "params"]).to_pylist()
    file = {row["key"]: row["params"].split('"file": "PACS/')[1].split('"')[0] for row in params}
    return {file[key] for key in keys}


def sets_of(built: Path, name: str) -> Mapping[str, set[str]]:
    task = sd.task(built, name)
    return {set_name: files_of(built, task.keys(set_name)) for set_name in task.sets}


def domainbed(raw: Path, trial_seed: int) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """The in and out splits of each environment, as the code makes them of ImageFolder's samples."""
    inside, out = {}, {}
    for env_index, env in enumerate(sorted(path.name for path in raw.iterdir() if path.is_dir())):
        samples = []
        for label in sorted(path.name for path in (raw / env).iterdir()):
            names = sorted(path.name for path in (raw / env / label).iterdir())
            samples += [f"{env}/{label}/{name}" for name in names if name.endswith((".jpg", ".png"))]
        keys = list(range(len(samples)))
        digest = hashlib.md5(str((trial_seed, env_index)).encode("utf-8")).hexdigest()
        np.random.RandomState(int(digest, 16) % (2**31)).shuffle(keys)
        size = int(len(samples) * 0.2)
        out[env] = {samples[key] for key in keys[:size]}
        inside[env] = {samples[key] for key in keys[size:]}
    return inside, out


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("test", DOMAINS)
def test_domainbeds_splits_are_those_of_its_code(places, test, seed):
    built, raw = places
    inside, out = domainbed(raw, seed)
    sets = sets_of(built, f"domainbed_code_{test}" + (f"_s{seed}" if seed else ""))
    others = [domain for domain in DOMAINS if domain != test]
    assert sets == {
        "train": set().union(*(inside[other] for other in others)),
        "validation": set().union(*(out[other] for other in others)),
        "test": inside[test],
        "oracle": out[test],
    }


@pytest.mark.parametrize("test", DOMAINS)
def test_domainbed_v2_shuffles_its_lists(places, test):
    built, raw = places
    wanted = {"train": set(), "validation": set(), "test": set()}
    for domain in DOMAINS:
        short = "art" if domain == "art_painting" else domain
        lines = (raw.parent / f"txtlist/PACS/{short}.txt").read_text().splitlines()
        names = [line.rsplit(" ", 1)[0].partition("/PACS/")[2] for line in lines]
        order = list(range(len(names)))
        np.random.RandomState(0).shuffle(order)
        cut = int(len(names) * 0.8)
        sets = {"train": order[:cut], "validation": order[cut:]} if domain != test else {"test": order}
        for name, places in sets.items():
            wanted[name] |= {names[place] for place in places}
    assert sets_of(built, f"dbv2_code_{test}") == wanted


def test_the_authors_lists_are_sets_whatever_their_numbers_and_line_ends(places):
    built, raw = places
    sets = sets_of(built, "listed_sketch_kfold")
    for name, list_, domains in (
        ("train", "train_kfold", DOMAINS[:3]),
        ("validation", "crossval_kfold", DOMAINS[:3]),
        ("test", "test_kfold", ("sketch",)),
    ):
        lines = [
            line for domain in domains for line in (raw / f"{domain}_{list_}.txt").read_text().split("\n")
        ]
        assert sets[name] == {line.rsplit(" ", 1)[0] for line in lines if line and "not_there" not in line}
    loaded = load_dataset(str(built), "listed_sketch_kfold", cache_dir=str(built.parent / "cache"))
    assert {name: files_of(built, rows["key"]) for name, rows in loaded.items()} == sets
    assert sd.info(built).default_config == "all"  # one of four is not the default


def test_the_card_shows_an_authors_list_first(places):
    card = (places[0] / "README.md").read_text(encoding="utf-8")
    assert 'load_dataset("shift/pacs", "listed_art_painting_kfold", split="train"' in card
    names = [split.name for split in sd.info(places[0]).canonical_splits]
    assert all(name.startswith("listed_") for name in names[:4])


@pytest.mark.filterwarnings("default")
def test_what_leaks_warns_and_no_filter_can_say_it(places):
    built, _ = places
    for name in ("domainbed_code_sketch", "dbv2_code_photo", "listed_sketch_kfold"):
        with pytest.warns(LeakWarning, match="origins are on two sides"):
            task = sd.task(built, name)
        assert set(task.filters().values()) == {None}
    with pytest.warns(LeakWarning):
        live = sd.task(built, "domainbed@code", test="sketch", seed=1)
    assert live.content_id() == sd.task(built, "domainbed_code_sketch_s1").content_id()


@pytest.mark.parametrize(
    ("protocol", "variants"),
    [
        ("leave-one-domain-out", "leave-one-domain-out@paper"),
        ("domainbed", "domainbed@paper or domainbed@code"),
        ("domainbed-v2", "domainbed-v2@paper or domainbed-v2@code"),
    ],
)
def test_a_task_says_that_it_tests_fewer_rows_than_papers_do(places, protocol, variants):
    task = sd.task(places[0], protocol, test="sketch")
    left = sum(len(rows) for rows in task.sets.values() if rows.role == "test")
    caution = (
        f"caution: {left} of 210 rows of sketch are left to test: originals of the others are shared with "
        f"the training domains; not comparable with published figures: take {variants}"
    )
    assert left < 210
    assert repr(task).endswith(f"; {caution}>")
    assert str(task.report()).splitlines()[2] == caution
    assert "caution" not in repr(sd.task(places[0], f"{protocol}@paper", test="sketch"))
    assert "caution" not in repr(sd.task(places[0], protocol, test="art_painting"))  # it shares no original


def test_the_built_dataset_is_sound_and_says_from_how_many_files_it_was_cut(places):
    built, _ = places
    assert verify(built) == []
    split = sd.open_dataset(built).manifest.canonical("domainbed_code_sketch")
    assert split.notes == [
        "cut from these numbers of files: art_painting 140, cartoon 140, photo 143, sketch 210"
    ]


def test_rows_without_files_or_lists_are_refused(places):
    table = pa.table({"key": ["a", "b"], "label": [0, 1], "domain": ["x", "y"]})
    rows = sd.metadata_from_table(table, nuisance="domain")
    with pytest.raises(InputError, match="does not name the file"):
        sd.task(rows, "domainbed@code", test="x")
    with pytest.raises(InputError, match=r"without the authors' list 'train' \(lists: "):
        sd.task(places[0], "listed", test="sketch", lists="train-val-test")


def test_domains_and_classes_stand_in_the_order_of_their_names_whatever_their_numbers():
    names = [
        (domain, label, f"{stem}.jpg") for domain in "yx" for label in ("b", "B") for stem in "zZ_a1905KkQq"
    ]
    table = pa.table(
        {
            "key": [f"k{number}" for number in range(len(names))],
            "label": [label for _, label, _ in names],
            "domain": [domain for domain, *_ in names],
        }
    )
    rows = sd.metadata_from_table(table, nuisance="domain", labels=["b", "B"], nuisances=["y", "x"])
    params = [json.dumps({"file": "/".join(name)}) for name in names]
    rows = replace(rows, source=rows.source.append_column("params", pa.array(params)))
    out = set()
    for env_index, env in enumerate("xy"):
        samples = [f"{env}/{label}/{name}" for label in "Bb" for name in sorted({name for *_, name in names})]
        keys = list(range(len(samples)))
        digest = hashlib.md5(str((7, env_index)).encode("utf-8")).hexdigest()
        np.random.RandomState(int(digest, 16) % (2**31)).shuffle(keys)
        out |= {samples[key] for key in keys[: int(len(samples) * 0.2)]}
    task = sd.task(rows, "domainbed@code", test="x", seed=7)
    keys_out = [key for name in ("validation", "oracle") for key in task.keys(name)]
    assert {"/".join(names[int(key[1:])]) for key in keys_out} == out
