"""Tasks and loaders read tars by their index: the rows, examples and promises are those of Parquet."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from itertools import chain

import fsspec
import hypothesis
import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shiftdata as sd
from shiftdata.data.exporting.webdataset import export
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.paths import index_file
from shiftdata.data.loading.byte_ranges import ExampleReader
from shiftdata.data.loading.tars.index import Index
from shiftdata.data.loading.tars.samples import Iteration, Samples
from shiftdata.errors import InputError, IntegrityError
from shiftdata.evaluation.sampling import Ranks
from tests.data.byte_ranges.server import ranges
from tests.tiny import edit_file

# The library leaves it to the garbage collector to close its tars.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")


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
    assert [rows.roles for rows in far.sets.values()] == [rows.roles for rows in near.sets.values()]


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


def test_label_shift_is_resampled_over_tars_to_its_marginal(tars):
    task = sd.task(tars, base="extended")
    marginal = np.array([0.4, 0.3, 0.2, 0.1])
    loader = task.loader("train", sampler="dirichlet", marginal=marginal, batch_size=16, seed=2)
    epochs = [Counter(chain.from_iterable(y.tolist() for _, y, _ in loader)) for _ in range(2)]
    assert epochs[0] == epochs[1]
    sizes = np.bincount(task.metadata.label[task.rows("train")])
    whole = next(
        n for n in range(sum(sizes), 0, -1) if (n * marginal <= sizes + 1e-9).all()
    )  # the most that fit
    assert [epochs[0][label] for label in range(4)] == [int(whole * share + 1e-9) for share in marginal]


# --- tasks in tars of their own


@pytest.fixture(scope="module")
def tasks(tiny):
    first, second = Manifest.read(tiny).nuisances[:2]
    return {
        "fair": sd.task(tiny, "group-fairness", k=2, mu=0.5),
        "uda": sd.task(tiny, "uda", source=first, target=second),
        "drawn": sd.task(tiny, "label-shift", alpha=2, replacement=True, on_empty="report"),
    }


@pytest.fixture(scope="module")
def task_tars(tiny, tasks, tmp_path_factory):
    """Tasks of the tiny dataset as configs of tars. Read only."""
    return export(tiny, tmp_path_factory.mktemp("tasks") / "tiny_wds", tasks=tasks)


@pytest.mark.parametrize("name", ["fair", "uda", "drawn"])
def test_a_task_in_tars_is_the_task(tasks, task_tars, name):
    near, far = tasks[name], sd.task(task_tars, name)
    assert (far.history.metrics, far.report().leaks) == (near.history.metrics, near.report().leaks)
    roles = [{name: tuple(rows.roles) for name, rows in task.sets.items()} for task in (near, far)]
    assert roles[0] == roles[1]
    for one, rows in near.sets.items():
        assert examples_of(far, one) == examples_of(near, one)
        assert sum(len(pictures) for pictures in examples_of(far, one).values()) == len(rows)
        samples = list(sd.webdataset(task_tars, name, split=one, decode=None, shuffle=20))
        assert len({sample["__key__"] for sample in samples}) == len(samples) == len(rows)
        pictures = Counter(sample["image"] for sample in samples)
        assert pictures == Counter(near.dataset(one, decode=False)[at][0] for at in range(len(rows)))
        assert all(("label" in sample) is (rows.role != "unlabelled") for sample in samples)
    test = near.set_of("test")
    guesses = dict.fromkeys(near.keys(test), int(near.label_ids[0]))
    assert far.evaluate(guesses).accuracy == near.evaluate(guesses).accuracy
    assert far.evaluate(guesses).figures == near.evaluate(guesses).figures


def examples_of(task, name):
    """The pictures of each key, as often as a loader hands them out, with labels where these are shown."""
    found = {}
    for batch in task.loader(name, batch_size=16, sampler="shuffle"):
        keys = batch[-1]["key"] if isinstance(batch[-1]["key"], list) else batch[-1]["key"].tolist()
        labels = batch[1].tolist() if len(batch) == 3 else [None] * len(keys)
        for key, x, label in zip(keys, batch[0], labels, strict=True):
            found.setdefault(key, []).append((x.numpy().tobytes(), label))
    return found


def test_what_a_task_in_tars_cannot_be_asked_for_is_said(tasks, task_tars):
    (hidden,) = (name for name, rows in tasks["uda"].sets.items() if rows.role == "unlabelled")
    task = sd.task(task_tars, "uda")
    with pytest.raises(
        InputError, match="these tars have no labels of it: evaluate on the task of the Parquet"
    ):
        task.evaluate(dict.fromkeys(task.keys(hidden), 0), hidden)
    with pytest.raises(InputError, match="the rows of a task, chosen already"):
        sd.task(task_tars, "group-fairness", k=2, mu=0.5, base="uda")
    with pytest.raises(InputError, match="needs groups, which are hidden"):
        task.loader(hidden, sampler="rwg")


def test_compressed_tars_have_no_samples_by_range(tiny, tmp_path):
    packed = export(tiny, tmp_path / "tiny_wds", configs=["mini"], gzip=True)
    assert len(sd.task(packed).rows("train")) > 0
    for read in (lambda: sd.task(packed).loader("train"), lambda: list(sd.webdataset(packed))):
        with pytest.raises(InputError, match="compressed tars, of which no part can be read"):
            read()


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


# --- the pipeline of the webdataset library


def pipeline(tars, **options):
    return sd.webdataset(tars, "extended", **{"shuffle": 50, "decode": None, "seed": 3} | options)


def keys(samples):
    return [sample["__key__"] for sample in samples]


def batches_of(made, **options):
    """The keys of each batch that a loader with two workers hands out."""
    from torch.utils.data import DataLoader

    return [tuple(batch) for (batch,) in DataLoader(made, batch_size=None, num_workers=2, **options)]


@settings(max_examples=40)
@given(
    total=st.integers(1, 60),
    shuffle=st.sampled_from([0, 5, 1000]),
    batch=st.integers(1, 9),
    world=st.integers(1, 3),
    workers=st.integers(1, 4),
    used=st.integers(0, 12),
    drop_last=st.booleans(),
)
def test_shares_are_equal_and_an_epoch_has_each_sample_once(
    made_samples, total, shuffle, batch, world, workers, used, drop_last
):
    hypothesis.assume(total >= world)
    ranks = [Ranks(rank, world, drop_last=drop_last) for rank in range(world)]
    orders = []
    for rank in ranks:
        source = made_samples(total, shuffle=shuffle, seed=1, batch_size=batch, ranks=rank)
        alone = source.share(Iteration(2)).tolist()
        assert len(alone) == (total // world if drop_last else -(-total // world))
        taken = in_turns(source, Iteration(2), workers)
        assert sorted(chain.from_iterable(taken)) == sorted(alone)
        # A loader that goes on after some batches hands out what the others would have been.
        start = min(used * batch, source.size)
        assert in_turns(source, Iteration(2, start), workers) == taken[used:]
        worker = min(workers - 1, 1)
        mine = source.share(Iteration(2), worker, workers).tolist()
        assert source.share(Iteration(2, 0, 3), worker, workers).tolist() == mine[3:]
        orders.append(alone)
    times = Counter(chain.from_iterable(orders))
    if drop_last:
        assert set(times.values()) <= {1}
    else:
        assert set(times) == set(range(total))
        assert max(times.values()) - 1 <= -(-world // total)
    order = source.order(2)
    assert sorted(order.tolist()) == list(range(total))
    if shuffle and total > 20:
        assert order.tolist() != source.order(3).tolist()
    if shuffle == 5:  # stretches of a tar stay in order but for the buffer
        assert np.abs(order - np.arange(total)).max() <= 5


@pytest.fixture(scope="module")
def made_samples(tars):
    """A source of so many samples, of one tar."""
    opened = sd.open_dataset(tars)

    def make(total, **options):
        source = Samples.__new__(Samples)
        source.__dict__["index"] = replace(
            Index.of(opened, "extended", "train"),
            starts=np.zeros((total, 3), np.int64),
            stretches=np.zeros(total, np.int64),
        )
        source.__init__(opened, "extended", "train", **options)
        return source

    return make


def in_turns(source, now, workers):
    """The batches of a torch loader: of its workers in turns, those that have ended left out."""
    shares = [source.share(now, worker, workers).tolist() for worker in range(workers)]
    size = source.batch_size
    cut = [[share[at : at + size] for at in range(0, len(share), size)] for share in shares]
    return [batches[turn] for turn in range(max(map(len, cut))) for batches in cut if turn < len(batches)]


def test_each_iteration_is_the_next_epoch(tars):
    made = pipeline(tars)
    epochs = [keys(made) for _ in range(3)]
    assert {len(set(epoch)) for epoch in epochs} == {400}
    assert len({tuple(epoch) for epoch in epochs}) == 3
    made.set_epoch(1)
    assert keys(made) == epochs[1]
    assert keys(made) == epochs[2]
    assert keys(pipeline(tars)) == epochs[0] != keys(pipeline(tars, seed=4))
    unmixed = pipeline(tars, shuffle=0)
    assert keys(unmixed) == keys(unmixed)
    rows = pq.ParquetDataset(sorted(tars.glob("index/extended/train-*"))).read(["key"])
    assert keys(unmixed) == rows["key"].to_pylist()
    assert keys(made.with_epoch(5)) == keys(pipeline(tars))[:5] or len(keys(made)) == 5


@pytest.mark.parametrize("persistent", [False, True])
def test_workers_get_the_next_epoch_too_and_whole_batches(tars, persistent):
    from torch.utils.data import DataLoader

    made = pipeline(tars).to_tuple("__key__").batched(7)
    loader = DataLoader(made, batch_size=None, num_workers=2, persistent_workers=persistent)

    def epoch():
        return [tuple(batch) for (batch,) in loader]

    epochs = [epoch() for _ in range(3)]
    assert len({tuple(one) for one in epochs}) == 3
    for one in epochs:
        assert list(map(len, one)) == [7] * 57 + [1]
        assert len(set(sum(one, ()))) == 400
    made.set_epoch(1)
    assert epoch() == epochs[1]
    next(iter(loader))  # epoch 2, left early
    made.set_epoch(1, start=7 * 20)
    assert epoch() == epochs[1][20:]
    assert epoch() == epochs[2]
    with pytest.raises(InputError, match="read in workers, and only their loader knows how far"):
        made.state_dict()


def test_workers_that_torch_seeds_alike_are_of_different_epochs(tars):
    import torch

    made = pipeline(tars).to_tuple("__key__").batched(50)
    epochs = []
    for _ in range(2):
        torch.manual_seed(0)
        epochs.append(batches_of(made))
    assert epochs[0] != epochs[1]
    assert all(len(set(sum(epoch, ()))) == 400 for epoch in epochs)


@pytest.mark.filterwarnings("ignore:.set_vital. is deprecated")
@pytest.mark.parametrize("workers", [0, 2])
def test_a_stateful_loader_resumes_to_the_batch(tars, workers):
    stateful = pytest.importorskip("torchdata.stateful_dataloader")

    def loader():
        made = pipeline(tars).to_tuple("__key__").batched(7)
        return stateful.StatefulDataLoader(made, batch_size=None, num_workers=workers)

    def seen(batches):
        return [tuple(batch) for (batch,) in batches]

    first = loader()
    epochs = [seen(first) for _ in range(3)]
    stopped = loader()
    seen(stopped)
    batches = iter(stopped)
    assert seen(next(batches) for _ in range(21)) == epochs[1][:21]
    state = stopped.state_dict()
    del batches, stopped
    resumed = loader()
    resumed.load_state_dict(state)
    assert seen(resumed) == epochs[1][21:]
    assert seen(resumed) == epochs[2]


def test_a_loop_resumes_to_the_sample(tars):
    whole = keys(pipeline(tars))
    made = pipeline(tars)
    samples = iter(made)
    assert keys(next(samples) for _ in range(123)) == whole[:123]
    state = json.loads(json.dumps(made.state_dict()))
    resumed = pipeline(tars)
    resumed.load_state_dict(state)
    assert keys(resumed) == whole[123:]
    assert resumed.state_dict() | {"epoch": 1, "start": 0, "done": 0} == resumed.state_dict()
    batches = pipeline(tars).to_tuple("__key__").batched(10)
    few = iter(batches)
    assert [key for _ in range(3) for key in next(few)[0]] == whole[:30]
    assert batches.state_dict()["done"] == 30  # not the sample after it
    with pytest.raises(InputError, match="the state is of another pipeline"):
        pipeline(tars, seed=9).load_state_dict(state)
    with pytest.raises(InputError, match=r"worker 1 of 2, and this is 0 of 1"):
        resumed.load_state_dict(state | {"worker": 1, "workers": 2})
    with pytest.raises(InputError, match="start from 0 to the 400 samples"):
        made.set_epoch(0, 401)


NODE = """
import json, sys
import shiftdata as sd
from torch.utils.data import DataLoader

tars, epochs, used = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
made = sd.webdataset(tars, "extended", shuffle=50, decode=None, seed=3).to_tuple("__key__").batched(7)
loader = DataLoader(made, batch_size=None, num_workers=2)
for epoch in epochs:
    made.set_epoch(epoch, start=used if epoch == epochs[0] else 0)
    for (batch,) in loader:
        print(json.dumps([epoch, batch]), flush=True)
"""


def node(tars, rank, epochs, used=0):
    """One of two nodes, in a process of its own, with two workers."""
    command = [sys.executable, "-W", "ignore", "-c", NODE, str(tars), json.dumps(epochs), str(used)]
    env = os.environ | {"RANK": str(rank), "WORLD_SIZE": "2"}
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)


def ended(processes):
    found = []
    for process in processes:
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 0
        found.append([json.loads(line) for line in output.splitlines()])
    return found


@pytest.mark.slow
def test_two_nodes_of_two_workers_share_each_epoch_and_go_on_after_a_kill(tars):
    whole = ended([node(tars, rank, [0, 1, 2]) for rank in (0, 1)])
    for epoch in range(3):
        mine = [[batch for number, batch in batches if number == epoch] for batches in whole]
        assert [len(batches) for batches in mine] == [29, 29]
        assert Counter(Counter(key for batches in mine for batch in batches for key in batch).values()) == {
            1: 400
        }
    assert (
        len({json.dumps([keys for number, keys in whole[0] if number == epoch]) for epoch in range(3)}) == 3
    )
    killed = node(tars, 0, [1, 2])
    seen = [json.loads(killed.stdout.readline()) for _ in range(11)]
    killed.kill()
    killed.communicate()
    (rest,) = ended([node(tars, 0, [1, 2], used=7 * 11)])
    assert seen + rest == [batch for batch in whole[0] if batch[0] > 0]


def test_samples_are_those_of_the_library_alone(both_formats):
    import webdataset

    tars = both_formats[1]
    base = Manifest.read(tars).default_base
    urls = [str(path) for path in sorted(tars.glob(f"data/{base}/train-*.tar"))]
    plain = webdataset.WebDataset(urls, shardshuffle=False)
    ours = sd.webdataset(tars, decode=None)
    named = {"cls": "label", "json": "metadata", "txt": "text"}
    for sample, expected in zip(ours, plain, strict=True):
        found = {named.get(name, "image"): data for name, data in expected.items() if name[0] != "_"}
        assert {name: data for name, data in sample.items() if name[0] != "_"} == found
        assert [sample[name] for name in ("__key__", "__url__")] == [
            expected[name] for name in ("__key__", "__url__")
        ]


def test_tars_in_a_bucket_are_read_as_here(tars, bucket):
    fsspec.filesystem("s3").put(str(tars), f"{bucket}/tiny_wds", recursive=True)
    there = f"s3://{bucket}/tiny_wds"
    with (
        sd.task(tars).loader("train", sampler="rwg", batch_size=16, seed=3) as near,
        sd.task(there).loader("train", sampler="rwg", batch_size=16, seed=3) as far,
    ):
        assert by_key(far) == by_key(near)
    assert keys(pipeline(there)) == keys(pipeline(tars))


def test_a_pipeline_reads_from_a_server_by_few_requests(tars):
    near = keys(pipeline(tars))
    with ranges(tars.parent) as served:
        far = pipeline(f"{served.url}/{tars.name}")
        assert keys(far) == near
        requests = [size for path, size in served.bodies if path.endswith(".tar")]
    assert len(requests) < 200  # of 400 samples in 16 tars
