"""Encodings of texts and tables: the lines that models read."""

from __future__ import annotations

import numpy as np
import pytest

import shiftdata as sd
from builders.make.build import build as build_dataset
from shiftdata.data.loading.encoders import GRAMS, Columns, HashedNgrams
from shiftdata.data.loading.features import features_of
from shiftdata.errors import InputError
from tests.contracts.kinds import prepare


def test_ngrams_know_nothing_of_length_or_case():
    x = HashedNgrams()(["Red", "red", "blue", "\N{SNOWMAN}", ""])
    assert (x[0] == x[1]).all()
    assert np.linalg.norm(x, axis=1) == pytest.approx(np.ones(5), abs=1e-5)
    assert x[0] @ x[2] < x[0] @ x[1]


def test_ngrams_count_as_logarithms():
    (row,) = HashedNgrams()(["x" * 10])
    values = np.unique((row[row > 0] / row[row > 0].min()).round(4))
    # n of the letter come 11 - n times, the space at either end twice, both together once.
    times = [1, 2, *(11 - n for n in GRAMS)]
    assert values == pytest.approx(sorted(np.log1p(times) / np.log(2)), abs=1e-3)


def test_columns_are_numbers_and_categories():
    columns = Columns({"age": "float32", "note": "string", "colour": ["red", "green", "blue"]})
    assert columns([[7, "new", 2], [1.5, "", 0]]).tolist() == [[7, 0, 0, 1], [1.5, 1, 0, 0]]
    unknown = Columns({"colour": ["red", "green"], "age": "float32"})(np.array([[np.nan, np.nan]]))
    assert unknown[0, :2].tolist() == [0, 0]
    assert np.isnan(unknown[0, 2])
    with pytest.raises(InputError, match="only texts"):
        Columns({"note": "string"})


@pytest.mark.parametrize("kind", ["text", "table"])
def test_they_encode_a_dataset(kind, tmp_path):
    folder = build_dataset(str(prepare(kind, tmp_path)), tmp_path / "out", workers=1, quiet=True)
    task = sd.task(folder)
    loader, rows = task.loader("train", batch_size=7), task.rows("train")
    for encoder in (HashedNgrams(64),) if kind == "text" else (Columns(loader.features),):
        lines = features_of(task.metadata, rows, encoder, cache=tmp_path / "cache")
        assert lines.shape[0] == len(task.metadata)
        direct = [encoder(x) for x, _, _ in loader]
        assert np.array_equal(lines[rows], np.concatenate(direct), equal_nan=True)
