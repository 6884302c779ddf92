from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from builders.make import row_groups as shards
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.writer import cut_into_shards
from shiftdata.data.metadata.folds import hashes64, quantiles


@st.composite
def rows(draw):
    groups = draw(st.lists(st.integers(1, 130), min_size=1, max_size=12))
    cells = np.repeat(np.arange(len(groups)), groups)
    keys = [f"k{number}" for number in range(len(cells))]
    size = draw(st.sampled_from([500, 5_000, 50_000, 2_000_000]))
    return shards.Rows(
        keys=pa.array(keys),
        cells=cells,
        labels=cells // 3,
        quantiles=quantiles(cells, hashes64(keys, "quantile")),
        sizes=np.full(len(cells), size, dtype=np.int64),
    )


@given(rows())
def test_row_groups_hold_every_row_once_within_the_limits(made):
    groups = shards.row_groups(made)
    assert sorted(np.concatenate(groups).tolist()) == list(range(len(made.keys)))
    for group in groups:
        shared = len(np.unique(made.labels[group])) > 1
        assert len(group) <= (shards.SHARED_ROWS_PER_GROUP if shared else shards.ROWS_PER_GROUP)
        assert made.sizes[group].sum() <= shards.BYTES_PER_GROUP or len(group) == 1


@given(rows())
def test_a_row_group_is_one_stretch_of_one_group_unless_groups_are_small(made):
    counts = np.bincount(made.cells)
    small = counts[made.cells] < shards.SMALL_STRETCH
    small_rows_of = np.bincount(made.labels, weights=small)
    for group in shards.row_groups(made):
        cells, labels = np.unique(made.cells[group]), np.unique(made.labels[group])
        if len(labels) > 1:
            assert small_rows_of[labels].max() < shards.SMALL_STRETCH
        if len(cells) > 1:
            assert counts[cells].max() < shards.SMALL_STRETCH
        for cell in cells:
            mine = made.quantiles[group][made.cells[group] == cell]
            assert np.array_equal(mine, np.sort(mine))


@given(rows(), st.randoms())
def test_row_groups_do_not_depend_on_row_order(made, random):
    order = np.array(random.sample(range(len(made.keys)), len(made.keys)))
    shuffled = shards.Rows(
        keys=made.keys.take(pa.array(order)),
        cells=made.cells[order],
        labels=made.labels[order],
        quantiles=made.quantiles[order],
        sizes=made.sizes[order],
    )

    def names(some):
        return [some.keys.take(pa.array(group)).to_pylist() for group in shards.row_groups(some)]

    assert names(made) == names(shuffled)


def test_shards_are_of_about_equal_size_and_keep_the_order():
    sizes = np.full(3000, 1 << 20, dtype=np.int64)
    shards = cut_into_shards(sizes.reshape(-1, 10).sum(axis=1))
    assert np.unique(shards).tolist() == list(range(12))  # 3000 MiB in shards of at most 256
    assert np.all(np.diff(shards) >= 0)
    weights = np.bincount(shards).tolist()
    assert max(weights) <= 1.05 * min(weights)


def test_tiny_examples_get_more_shards_so_that_no_footer_describes_many_row_groups():
    shards = cut_into_shards(np.full(72_000, 40 * 300))
    assert np.all(np.diff(shards) >= 0)
    assert np.bincount(shards).max() <= 10_500


def test_images_lie_verbatim_and_filters_can_skip(tiny):
    manifest = Manifest.read(tiny)
    metadata = pq.read_table(tiny / "metadata/extended/train.parquet").to_pylist()
    (path,) = tiny.glob("data/extended/train-*.parquet")
    data, raw = pq.read_table(path), path.read_bytes()
    for row, image in zip(metadata, data["image"].to_pylist(), strict=True):
        assert raw[row["offset"] : row["offset"] + row["length"]] == image["bytes"]
    file = pq.ParquetFile(path)
    column = {
        file.metadata.row_group(0).column(i).path_in_schema: i for i in range(file.metadata.num_columns)
    }
    for number in range(file.num_row_groups):
        group = file.metadata.row_group(number)
        for name in ("split", "label", "style", "quantile"):
            assert group.column(column[name]).statistics.has_min_max
        assert group.column(column["image.bytes"]).compression == "UNCOMPRESSED"
        assert "PLAIN_DICTIONARY" not in group.column(column["image.bytes"]).encodings
        assert group.column(column["image.bytes"]).statistics is None
    assert manifest.files[path.relative_to(tiny).as_posix()].rows == file.metadata.num_rows
