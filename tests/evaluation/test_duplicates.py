"""Near-duplicates: planted copies are found, pictures that merely look alike are not."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import shiftdata.cli.app
from shiftdata.data.dataset import open_dataset
from shiftdata.data.metadata import read_metadata
from shiftdata.errors import InputError
from shiftdata.evaluation.duplicates import (
    base_compared,
    keep,
    kept_duplicates,
    near_duplicates,
    rows_compared,
    summary_of,
)
from shiftdata.evaluation.duplicates.clusters import Pairs, clusters_of
from shiftdata.evaluation.duplicates.neighbours import neighbours
from shiftdata.evaluation.duplicates.pictures import Small, candidates, distances, sift, usual_thresholds
from shiftdata.evaluation.duplicates.texts import table_pairs, text_pairs
from tests.evaluation import planted
from tests.shared import dataset_of, made_once

RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return made_once(tmp_path_factory, "planted", planted.make) / "out/shift/planted"


@pytest.fixture(scope="module")
def found(dataset):
    return near_duplicates(dataset, cache=False)


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))


def run(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, str]:
    status = shiftdata.cli.app.main([*map(str, words)])
    return status, capsys.readouterr().out


def test_every_planted_copy_is_found_and_nothing_else(found):
    pairs = [tuple(sorted(member.key.split("--")[1] for member in of.members)) for of in found.clusters]
    copies = [(f"p{number}", f"p{number}-{kind}") for number, kind in enumerate([*planted.COPIES] * 2)]
    assert sorted(pairs) == sorted([*copies, ("p20", "p20-other")])
    kinds = {of.members[1].key.split("-")[-3]: of.kind for of in found.clusters}
    assert {name for name, kind in kinds.items() if kind == "mirrored"} == {"mirror"}


def test_leaks_come_first_and_other_labels_are_counted(found):
    ranks = [of.rank for of in found.clusters]
    assert ranks == sorted(ranks)
    assert found.clusters[0].across
    assert "train" in found.clusters[0].splits
    assert found.mixed == 1
    assert summary_of(found) == (
        f"{found.across} clusters of near-duplicates lie on both sides of a split; "
        f"{len(found.clusters) - found.across} clusters within a split"
    )


def test_a_lower_threshold_keeps_the_closest(dataset, found):
    closest = near_duplicates(dataset, cache=False, threshold=0.01)
    assert {of.members for of in closest.clusters} == {
        of.members for of in found.clusters if of.distance <= 0.01
    }
    with pytest.raises(InputError, match="from 0"):
        near_duplicates(dataset, threshold=2)


def test_embeddings_propose_pairs_that_pixels_verify(dataset, found):
    size = len(read_metadata(dataset))
    assert (
        near_duplicates(dataset, cache=False, vectors=RNG.normal(size=(size, 8))).clusters == found.clusters
    )


def test_equal_bytes_of_two_origins_are_at_distance_0(dataset):
    metadata = read_metadata(open_dataset(dataset))
    rows = np.array([[0, 3], [3, 9]])
    (cluster,) = clusters_of(metadata, Pairs(rows, np.array([0.2, 0.0]), np.array([1, 0])))
    assert len(cluster.members) == 3
    splits = metadata.columns["split"]
    crosses = splits[3] != splits[9] or splits[0] == splits[3]
    assert (cluster.distance, cluster.kind) == ((0, "equal bytes") if crosses else (0.2, "near"))


def test_blocks_find_the_neighbours_of_a_full_matrix(monkeypatch):
    vectors = RNG.normal(size=(150, 12)).astype(np.float32)
    origins, splits = RNG.integers(0, 40, 150), RNG.integers(0, 3, 150)
    whole = neighbours(vectors, origins, splits, 3)
    monkeypatch.setattr("shiftdata.evaluation.duplicates.neighbours.QUERIES", 16)
    monkeypatch.setattr("shiftdata.evaluation.duplicates.neighbours.ROWS", 7)
    assert (neighbours(vectors, origins, splits, 3) == whole).all()
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    apart = origins[:, None] != origins
    expected = set()
    for allowed in (apart, apart & (splits[:, None] != splits)):
        cosines = np.where(allowed, unit @ unit.T, -2)
        for row, line in enumerate(np.argsort(-cosines, axis=1)[:, :3]):
            expected |= {tuple(sorted((row, int(other)))) for other in line if cosines[row, other] > 0}
    assert {tuple(pair) for pair in whole.tolist()} == expected


def test_letters_that_look_alike_are_apart():
    """The letter T with stems of other widths, and each of them encoded again."""
    pictures = np.full((6, 32, 32, 3), 240, np.uint8)
    pictures[:, 4:8, 3:29] = 20
    for number in range(6):
        pictures[number, 8:28, 15 - number : 17 + number] = 20
    noisy = np.clip(pictures + RNG.normal(0, 4, pictures.shape), 0, 255).astype(np.uint8)
    pixels = np.concatenate([pictures, noisy])
    small = Small()(pixels.reshape(12, 16, 2, 16, 2, 3).mean((2, 4)).astype(np.uint8))
    pairs = candidates(small, np.arange(12), np.arange(12) % 2)
    sifted = sift(small, pairs)
    close = sifted.rows[distances(pixels, sifted) < 0.07]
    assert {tuple(sorted(pair)) for pair in close.tolist()} == {(place, place + 6) for place in range(6)}


def test_thresholds_follow_the_look_alikes_of_a_dataset():
    pairs = np.array([(row, row + step) for row in range(100) for step in range(1, 6) if row + step < 100])
    apart = np.full(len(pairs), 0.3, np.float32)
    assert usual_thresholds(100, pairs, apart) == pytest.approx(np.full(len(pairs), 0.18))
    apart[(pairs < 20).all(axis=1)] = 0.05  # twenty letters that any font draws alike
    limits = usual_thresholds(100, pairs, apart)
    assert limits[(pairs < 15).all(axis=1)] == pytest.approx(0.02)
    assert limits[(pairs > 30).all(axis=1)] == pytest.approx(0.07)


def test_texts_are_compared_by_their_words():
    words = [f"word{number}" for number in range(200)]
    texts = [" ".join(RNG.choice(words, 20)) for _ in range(40)]
    copies = [texts[0].upper() + "!", texts[1].replace(" ", ", "), " ".join(texts[2].split()[:18])]
    pairs, distance = text_pairs([*texts, *copies, "", "one", "two"])
    near = {tuple(pair) for pair in pairs[distance <= 0.4].tolist()}
    assert near == {(0, 40), (1, 41), (2, 42)}


def test_rows_of_a_table_are_compared_by_rounded_values():
    rows = [{"age": float(value), "town": "Lyon", "n": 3} for value in RNG.normal(size=50)]
    copies = [rows[4] | {"age": float(f"{rows[4]['age']:.4g}"), "town": " LYON"}, rows[5] | {"n": 4}]
    pairs, distance = table_pairs([*rows, *copies])
    assert pairs.tolist() == [[4, 50]]
    assert 0 <= distance[0] < 0.005


@pytest.mark.parametrize("kind", ["stylized", "continuous", "text", "table"])
def test_each_kind_of_dataset_is_compared(kind, tmp_path_factory):
    opened = open_dataset(dataset_of(tmp_path_factory, kind))
    found = near_duplicates(opened, cache=False)
    metadata = read_metadata(opened, base_compared(opened.manifest))
    assert found.compared == len(rows_compared(metadata)) <= len(metadata)
    for cluster in found.clusters:
        assert len({member.origin for member in cluster.members}) > 1


def test_one_form_of_an_origin_is_compared(tmp_path_factory):
    metadata = read_metadata(dataset_of(tmp_path_factory, "continuous"))
    rows = rows_compared(metadata)
    severity = metadata.columns["severity"]
    units = {(metadata.origin[row], metadata.label[row]) for row in range(len(metadata))}
    forms = {(metadata.origin[row], metadata.label[row], metadata.nuisance[row]) for row in rows}
    assert len(forms) == len(units)
    assert set(severity[rows].tolist()) == {0.0}


def test_the_last_result_is_kept_for_the_same_content(dataset, found, tmp_path_factory):
    manifest = open_dataset(dataset).manifest
    assert kept_duplicates(manifest, "all") is None
    path = keep(found)
    assert kept_duplicates(manifest, "all") == found
    path.write_text("{", encoding="utf-8")
    assert kept_duplicates(manifest, "all") is None
    path.write_text(json.dumps(found.to_dict() | {"version": 0}), encoding="utf-8")
    assert kept_duplicates(manifest, "all") is None


def test_the_verb_prints_clusters_and_fails_on_a_leak(dataset, found, capsys, tmp_path):
    words = ("duplicates", dataset, "--model", "none", "--quiet")
    status, text = run(capsys, *words, "--json", tmp_path / "all.json")
    assert status == 0
    assert text.startswith(summary_of(found))
    assert "distance  kind" in text
    assert "1 with different labels" in text
    assert (
        json.loads((tmp_path / "all.json").read_text())["clusters"]
        == json.loads(json.dumps(found.to_dict()))["clusters"]
    )
    assert run(capsys, *words, "--fail-on-leak")[0] == 1
    assert run(capsys, *words, "--threshold", "0", "--fail-on-leak")[0] == 0
