"""The map of rows: neighbours are the nearest rows, and a kept map is used for its own rows alone."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import shiftdata as sd
from shiftdata.cli.app import main
from shiftdata.errors import InputError
from shiftdata.serve.explore import neighbours
from shiftdata.serve.explore.neighbours import add_map, components, map_file, map_of, nearest, row_map
from tests.serve.explore.conftest import rows_of


def clumps(count: int, dimensions: int = 16, groups: int = 40) -> np.ndarray:
    drawn = np.random.default_rng(1)
    centres = drawn.normal(size=(groups, dimensions)) * 5
    return (centres[drawn.integers(0, groups, count)] + drawn.normal(size=(count, dimensions))).astype(
        np.float32
    )


def by_all_distances(vectors: np.ndarray, k: int) -> np.ndarray:
    far = np.linalg.norm(vectors[:, None] - vectors[None], axis=2)
    np.fill_diagonal(far, np.inf)
    return np.argsort(far, axis=1, kind="stable")[:, :k]


def test_nearest_rows_are_those_of_all_distances():
    vectors = clumps(700)
    at, far = nearest(vectors, vectors, 6)
    assert (at[:, 0] == np.arange(700)).all()
    assert (at[:, 1:] == by_all_distances(vectors, 5)).mean() > 0.999  # but for ties of float32
    assert np.allclose(far[:, 1], np.linalg.norm(vectors - vectors[at[:, 1]], axis=1), atol=1e-4)


def test_many_rows_have_nearly_the_same_neighbours_by_cells(monkeypatch, placed):
    vectors = clumps(1500)
    monkeypatch.setattr(neighbours, "FITTED", 300)
    made = map_of(vectors)
    right = by_all_distances(made.features.astype(np.float32), 15)
    shared = [
        len({*mine} & {*true}) for mine, true in zip(made.neighbours.tolist(), right.tolist(), strict=True)
    ]
    assert np.mean(shared) / 15 > 0.9
    assert not (made.neighbours == np.arange(1500)[:, None]).any()
    assert (np.diff(made.distances, axis=1) >= -1e-4).all()
    # A row that UMAP did not place lies among its neighbours.
    near = made.xy[made.neighbours[:, :5]].mean(axis=1)
    assert np.linalg.norm(made.xy - near, axis=1).mean() < 0.3 * made.xy.std(axis=0).sum()


def test_components_keep_distances_and_their_sign(monkeypatch):
    vectors = np.random.default_rng(2).normal(size=(300, 40)).astype(np.float32)
    assert np.allclose(components(vectors), vectors - vectors.mean(0), atol=1e-5)  # fewer than are kept
    wide = vectors @ np.random.default_rng(3).normal(size=(40, 200)).astype(np.float32)
    few = components(wide)
    assert few.shape == (300, neighbours.COMPONENTS)
    before, after = (np.linalg.norm(each[:100, None] - each[None, :100], axis=2) for each in (wide, few))
    assert np.allclose(before, after, rtol=1e-3, atol=1e-2)
    monkeypatch.setattr(neighbours, "BLOCK", 7)
    assert np.allclose(few, components(wide), atol=1e-2)


def test_equal_rows_are_neighbours_and_no_row_its_own(placed):
    vectors = np.repeat(clumps(5), 30, axis=0)
    made = map_of(vectors)
    assert not (made.neighbours == np.arange(150)[:, None]).any()
    assert (made.distances == 0).all()


def test_two_rows_are_no_map():
    with pytest.raises(InputError, match="needs 3 rows"):
        map_of(clumps(2))


def test_a_map_is_kept_and_is_of_its_own_rows(kinds, placed, monkeypatch, tmp_path):
    monkeypatch.setenv("SHIFTDATA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(neighbours, "cache_folder", lambda name: tmp_path / "cache" / name)
    metadata, encoded = rows_of(kinds["table"]), []
    made = row_map(metadata, on_rows=encoded.append)
    assert sum(encoded) == len(metadata) == len(made)
    again = row_map(metadata, on_rows=lambda count: pytest.fail("encoded again"))
    assert (again.xy == made.xy).all()
    assert (again.features == made.features).all()
    assert (again.neighbours == made.neighbours).all()
    (file,) = (tmp_path / "cache" / "maps").iterdir()
    other = rows_of(kinds["text"])
    shutil.copyfile(file, tmp_path / "other.parquet")
    assert neighbours._read(tmp_path / "other.parquet", other) is None


def test_a_map_becomes_a_part_of_the_dataset(kinds, placed, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(neighbours, "cache_folder", lambda name: tmp_path / "cache" / name)
    folder = Path(shutil.copytree(kinds["table"], tmp_path / kinds["table"].name))
    metadata = rows_of(folder)
    dataset = sd.open_dataset(folder)
    made = row_map(metadata)
    add_map(dataset, metadata, made)
    opened = sd.open_dataset(folder)
    assert opened.manifest.content_id == dataset.manifest.content_id
    assert map_file(metadata.base) in opened.manifest.files
    assert main(["verify", str(folder)]) == 0, capsys.readouterr().out
    shutil.rmtree(tmp_path / "cache")
    assert (row_map(rows_of(folder)).xy == made.xy).all()
    assert not (tmp_path / "cache").exists()
    changed = bytearray((folder / map_file(metadata.base)).read_bytes())
    changed[len(changed) // 2] ^= 1
    (folder / map_file(metadata.base)).write_bytes(changed)
    with pytest.raises(sd.errors.IntegrityError, match="features/"):
        row_map(rows_of(folder))
