"""Encodings of texts and tables: the lines that models read."""

from __future__ import annotations

import numpy as np
import pytest

import shiftdata as sd
from shiftdata.data.loading.encoders import COLUMNS, Columns, Grams
from shiftdata.data.loading.features import features_of
from shiftdata.errors import InputError
from tests.shared import dataset_of


def test_grams_are_the_words_that_texts_share_and_then_characters():
    texts = ["The red bird, the nest", "the RED bird sings", "blue"]
    grams = Grams.of(texts, columns=5)  # the, red, bird, "the red", "red bird"
    x = grams(["the red", "The bird!", "red bird the the", "blue", ""])
    assert x.dtype == np.uint8
    assert x.sum(1).tolist() == [3, 2, 5, 0, 0]
    assert x[2].max() == 2
    wide = Grams.of(texts)
    assert 5 < len(wide.hashes) < COLUMNS
    assert wide(["bluebird"]).sum() > 5  # by its characters
    assert (Grams.of(texts[::-1]).hashes == wide.hashes).all()


def test_columns_are_numbers_and_categories():
    columns = Columns({"age": "float32", "note": "string", "colour": ["red", "green", "blue"]})
    assert columns([[7, "new", 2], [1.5, "", 0]]).tolist() == [[7, 0, 0, 1], [1.5, 1, 0, 0]]
    unknown = Columns({"colour": ["red", "green"], "age": "float32"})(np.array([[np.nan, np.nan]]))
    assert unknown[0, :2].tolist() == [0, 0]
    assert np.isnan(unknown[0, 2])
    with pytest.raises(InputError, match="only texts"):
        Columns({"note": "string"})


@pytest.mark.parametrize("kind", ["text", "table"])
def test_they_encode_a_dataset(kind, tmp_path, tmp_path_factory):
    task = sd.task(dataset_of(tmp_path_factory, kind))
    loader, rows = task.loader("train", batch_size=7), task.rows("train")
    for encoder in (Grams.of(["a red bird"]),) if kind == "text" else (Columns(loader.features),):
        lines = features_of(task.metadata, rows, encoder, cache=tmp_path / "cache")
        assert lines.shape[0] == len(task.metadata)
        direct = [encoder(x) for x, _, _ in loader]
        assert np.array_equal(lines[rows], np.concatenate(direct), equal_nan=True)
