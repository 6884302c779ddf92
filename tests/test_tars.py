"""Tasks and loaders read tars by their index: the rows, examples and promises are those of Parquet."""

from __future__ import annotations

import io
import json
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest

import shiftdata as sd
from builders.make.build import build
from shiftdata.errors import IntegrityError
from shiftdata.exporting.webdataset import export
from shiftdata.format.manifest import Manifest
from shiftdata.format.paths import index_file
from shiftdata.loading.byte_ranges import ExampleReader
from tests.byte_ranges.server import ranges
from tests.contracts.kinds import prepare
from tests.tiny import edit_file

SMALL = 40_000  # bytes of a tar: several a split


@pytest.fixture(scope="module", params=["stylized", "continuous", "text", "table"])
def both_formats(request, tiny, tmp_path_factory):
    """A dataset of each kind, as Parquet and as tars."""
    folder = tmp_path_factory.mktemp("formats")
    if request.param == "stylized":
        parquet = tiny
    else:
        (folder / "made").mkdir()
        recipe = prepare(request.param, folder / "made")
        parquet = build(str(recipe), folder / "out", workers=1, quiet=True)
    return parquet, export(parquet, folder / f"{parquet.name}_wds", shard_bytes=SMALL)


@pytest.fixture(scope="module")
def tars(tiny, tmp_path_factory):
    """The tiny dataset in WebDataset format. Read only."""
    return export(tiny, tmp_path_factory.mktemp("tars") / "tiny_wds", shard_bytes=SMALL)


def by_key(loader):
    """What a loader hands out of each key: x bit for bit, label, group and nuisance."""
    found = {}
    for xs, ys, known in loader:
        rows = zip(xs, ys.tolist(), known["group"].tolist(), known["nuisance"].tolist(), strict=True)
        for key, (x, *numbers) in zip(known["key"], rows, strict=True):
            found[key] = (x if isinstance(x, str | list) else np.asarray(x).tobytes(), *numbers)
    return found


# --- the rows


def test_the_rows_of_tars_are_those_of_parquet(both_formats):
    parquet, tars = map(sd.open_dataset, both_formats)
    for base in parquet.manifest.bases:
        near, far = (sd.read_metadata(opened, base.name) for opened in (parquet, tars))
        assert far.table.sort_by("key") == near.table.sort_by("key")
        assert sd.task(tars, base=base.name).content_id() == sd.task(parquet, base=base.name).content_id()
        for split, record in base.splits.items():
            assert len(sd.task(tars, base=base.name).rows(split)) == record.rows
        orders = [np.argsort(rows.table["key"].to_pylist()) for rows in (near, far)]
        with (
            ExampleReader(parquet, base.name) as first,
            ExampleReader(tars, base.name, verify=True) as second,
        ):
            assert second.read(orders[1].tolist()) == first.read(orders[0].tolist())
            hashes = [reader.hashes(order) for reader, order in zip((first, second), orders, strict=True)]
            np.testing.assert_array_equal(*hashes)


@pytest.mark.parametrize(
    "words",
    [
        "group-fairness k=2 mu=0.5",
        "label-shift alpha=2 replacement=true",
        "leave-one-domain-out test=amber",
        "uda source=amber target=moss",
    ],
)
def test_a_protocol_chooses_the_same_rows(tiny, tars, words):
    if "test=" in words or "uda" in words:
        first, second = Manifest.read(tiny).nuisances[:2]
        words = words.replace("amber", first).replace("moss", second)
    near, far = (sd.task(folder, words, base="extended", on_empty="report") for folder in (tiny, tars))
    assert far.content_id() == near.content_id()
    assert far.roles == near.roles


def test_loaders_hand_out_the_same_examples(both_formats):
    near, far = map(sd.task, both_formats)
    for name in near.sets:
        expected = by_key(near.loader(name, sampler="shuffle", batch_size=16))
        assert by_key(far.loader(name, sampler="shuffle", batch_size=16)) == expected
        assert by_key(far.loader(name, batch_size=16, workers=0)) == expected


def test_a_loader_over_tars_goes_on_and_shares_with_ranks(tars):
    task = sd.task(tars)
    options = {"sampler": "shuffle", "batch_size": 7, "seed": 4}

    def keys(batches):
        return [tuple(known["key"]) for _, _, known in batches]

    loader = task.loader(**options)
    epochs = [keys(loader) for _ in range(3)]
    assert len({tuple(epoch) for epoch in epochs}) == 3
    assert len({tuple(sorted(sum(epoch, ()))) for epoch in epochs}) == 1
    stopped = task.loader(**options)
    stopped.set_epoch(1)
    batches = iter(stopped)
    assert keys(next(batches) for _ in range(3)) == epochs[1][:3]
    resumed = task.loader(**options)
    resumed.load_state_dict(json.loads(json.dumps(stopped.state_dict())))
    assert keys(resumed) == epochs[1][3:]
    shares = [sum(keys(task.loader(**options, rank=rank, world=2)), ()) for rank in (0, 1)]
    assert sorted(sum(shares, ())) == sorted(sum(epochs[0], ()))


def test_an_unlabelled_set_of_tars_hides_labels(tiny, tars):
    first, second = Manifest.read(tiny).nuisances[:2]
    near, far = (sd.task(folder, "uda", source=first, target=second) for folder in (tiny, tars))
    (hidden,) = (name for name, rows in near.sets.items() if rows.role == "unlabelled")

    def shown(task):
        batches = task.loader(hidden, batch_size=8, sampler="shuffle")
        return {
            int(key): x.numpy().tobytes()
            for xs, known in batches
            for x, key in zip(xs, known["key"], strict=True)
        }

    assert shown(far) == shown(near)


# --- group samplers: the exact expectation of a row


@pytest.mark.parametrize("sampler", ["shuffle", "subg", "per-domain", "rwg", "n-groups"])
def test_a_sampler_draws_each_row_of_the_tars_as_often_as_it_says(tars, sampler):
    scipy = pytest.importorskip("scipy.stats")
    task = sd.task(tars, "group-fairness k=2 mu=0.5", base="extended", on_empty="report")
    rows = task.rows("train")
    numbers = task.metadata.nuisance if sampler == "per-domain" else task.metadata.group
    _, cell, sizes = np.unique(numbers[rows], return_inverse=True, return_counts=True)
    options = {"n-groups": {"n_groups_per_batch": 2}}.get(sampler, {})
    options |= {"on_empty": "drop"} if sampler in ("subg", "rwg", "n-groups") else {}
    batch, epochs = (4 * len(sizes) if sampler == "per-domain" else 8), 60
    loader = task.loader("train", sampler=sampler, batch_size=batch, seed=5, **options)
    batches = [batch for epoch in range(epochs) for batch in loader.batches.items_of(epoch)]
    drawn = np.concatenate(batches)
    counts = np.bincount(drawn, minlength=len(rows))
    if sampler == "shuffle":
        assert (counts == epochs).all()
        return
    if sampler in ("subg", "per-domain"):  # each cell exactly as often as any other
        np.testing.assert_array_equal(np.bincount(cell, counts), len(drawn) / len(sizes))
    if sampler == "subg":
        assert counts[counts > 0].tolist() == [epochs] * (min(sizes) * len(sizes))  # chosen once
        return
    # Every cell equally often, each of its rows alike: p of a row in a draw = 1 / (cells * rows of its cell).
    expected = len(drawn) / (len(sizes) * sizes[cell])
    assert scipy.chisquare(counts, expected).pvalue > 1e-3
    if sampler != "per-domain":  # whose cells are about equally large here
        assert scipy.chisquare(counts, np.full(len(rows), len(drawn) / len(rows))).pvalue < 1e-6


# --- elsewhere, and damaged


def test_examples_come_from_a_server_by_range(both_formats):
    parquet, tars = both_formats
    expected = by_key(sd.task(parquet).loader("train", batch_size=16))
    with ranges(tars.parent) as served:
        task = sd.task(f"{served.url}/{tars.name}")
        with task.loader("train", sampler="shuffle", batch_size=16) as loader:
            assert by_key(loader) == expected
        fetched = served.fetched(".tar")
    assert fetched < sum(path.stat().st_size for path in tars.glob("data/*/*.tar"))


def test_an_example_that_is_not_the_one_in_the_index_is_refused(both_formats, tmp_path):
    tars = both_formats[1]
    manifest = Manifest.read(tars)
    member = "json" if manifest.roles.modality == "table" else next(iter(manifest.sample))
    base = manifest.default_base
    copied = tmp_path / "copied_wds"
    shutil.copytree(tars, copied)
    path = min(copied.glob(f"data/{base}/train-*.tar")).relative_to(copied).as_posix()
    rows = pq.read_table(copied / index_file(path)).to_pylist()

    def change(data):
        # Of a table, in its last feature.
        at = rows[2][f"{member}_offset"] + rows[2][f"{member}_length"] - 3
        return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]

    edit_file(copied, path, change)
    with ExampleReader(copied, base, verify=True) as reader:
        reader.read([0, 1, 3])
        with pytest.raises(IntegrityError, match="row 2 does not have the sha256"):
            reader.read([0, 1, 2])


def test_an_index_that_points_outside_of_its_tar_is_refused(tars, tmp_path):
    copied = tmp_path / "copied_wds"
    shutil.copytree(tars, copied)
    path = min(copied.glob("index/mini/train-*.parquet")).relative_to(copied).as_posix()

    def change(data):
        table = pq.read_table(io.BytesIO(data))
        at = table.schema.get_field_index("png_offset")
        offsets = table["png_offset"].to_pylist()
        offsets[1] = 2**62
        sink = io.BytesIO()
        pq.write_table(table.set_column(at, table.schema.field(at), [offsets]), sink)
        return sink.getvalue()

    edit_file(copied, path, change)
    with (
        ExampleReader(copied, "mini") as reader,
        pytest.raises(IntegrityError, match="metadata puts row 1 of"),
    ):
        reader.read([1])
