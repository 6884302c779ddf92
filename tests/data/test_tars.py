"""Tasks and loaders read tars by their index: the rows, examples and promises are those of Parquet."""

from __future__ import annotations

import io
import json
import shutil
from collections import Counter
from itertools import chain
from types import SimpleNamespace

import hypothesis
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shiftdata as sd
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.paths import index_file
from shiftdata.data.loading.byte_ranges import ExampleReader
from shiftdata.data.loading.order import Ranks
from shiftdata.errors import InputError, IntegrityError
from shiftdata.evaluation.export import export_tars
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
    return export_tars(tiny, tmp_path_factory.mktemp("tasks") / "tiny_wds", tasks=tasks)


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
            found.setdefault(key, []).append((np.asarray(x).tobytes(), label))
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


# --- elsewhere, and damaged


@pytest.mark.slow
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
    samples_of, total, shuffle, batch, world, workers, used, drop_last
):
    hypothesis.assume(total >= world)
    orders = []
    for rank in range(world):
        ranks = Ranks(rank, world, drop_last=drop_last)
        source = samples_of(total, shuffle=shuffle, seed=1, batch_size=batch, ranks=ranks)
        alone = source.share(2).tolist()
        assert len(alone) == (total // world if drop_last else -(-total // world))
        taken = in_turns(source, 0, workers)
        assert sorted(chain.from_iterable(taken)) == sorted(alone)
        # A loader that goes on after some batches hands out the rest of them.
        assert in_turns(source, min(used * batch, source.size), workers) == taken[used:]
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
def samples_of(tars):
    """Make the source of that many samples, of one tar."""
    from shiftdata.data.loading.tars.pipeline import Samples

    opened = sd.open_dataset(tars)

    def make(total, **options):
        opened.keep(
            ("samples", "extended", f"train {total}"), lambda: pa.table({"stretch": np.zeros(total, int)})
        )
        return Samples(opened, "extended", f"train {total}", **options)

    return make


def in_turns(source, start, workers):
    """The batches of a torch loader: of its workers in turns, those that have ended left out."""
    shares = [source.share(2, start, worker, workers).tolist() for worker in range(workers)]
    size = source.batch_size
    cut = [[share[at : at + size] for at in range(0, len(share), size)] for share in shares]
    return [batches[turn] for turn in range(max(map(len, cut))) for batches in cut if turn < len(batches)]


def test_each_iteration_is_the_next_epoch(tars):
    stream = pipeline(tars)
    epochs = [keys(stream) for _ in range(3)]
    assert {len(set(epoch)) for epoch in epochs} == {400}
    assert len({tuple(epoch) for epoch in epochs}) == 3
    stream.set_epoch(1, start=123)
    assert keys(stream) == epochs[1][123:]
    assert keys(stream) == epochs[2]
    assert keys(pipeline(tars)) == epochs[0] != keys(pipeline(tars, seed=4))
    unmixed = pipeline(tars, shuffle=0)
    rows = pq.ParquetDataset(sorted(tars.glob("index/extended/train-*"))).read(["key"])
    assert keys(unmixed) == keys(unmixed) == rows["key"].to_pylist()
    assert len(keys(stream.with_epoch(5))) == 5
    with pytest.raises(InputError, match="start from 0 to the 400 samples"):
        stream.set_epoch(0, 401)


@pytest.mark.parametrize("persistent", [False, True])
def test_workers_share_whole_batches_and_any_epoch_resumes(tars, persistent):
    pytest.importorskip("torch")
    from torch.utils.data import DataLoader

    stream = pipeline(tars, batch_size=7).to_tuple("__key__").batched(7)
    loader = DataLoader(stream, batch_size=None, num_workers=2, persistent_workers=persistent)

    def epoch():
        return [tuple(batch) for (batch,) in loader]

    assert epoch() != epoch()  # nobody chose one: torch's seed makes the order
    stream.set_epoch(0)
    epochs = [epoch()]
    stream.set_epoch(1)
    epochs.append(epoch())
    assert epochs[0] != epochs[1]
    for batches in epochs:
        assert list(map(len, batches)) == [7] * 57 + [1]
        assert len(set(sum(batches, ()))) == 400
    next(iter(loader))
    stream.set_epoch(1, start=7 * 20)
    assert epoch() == epochs[1][20:]
    if persistent:
        stream.set_epoch(0)
        assert [epoch(), epoch()] == epochs  # its workers count on


def test_a_state_is_a_sample_in_a_shard_and_goes_on_there(tars):
    def batches(stream):
        return stream.to_tuple("__key__").batched(7)

    stream = batches(pipeline(tars, batch_size=7))
    epochs = [list(stream), list(stream)]
    stream = batches(pipeline(tars, batch_size=7))
    assert stream.state_dict() == {}
    running = iter(stream)
    used = [next(running) for _ in range(20)]
    state = json.loads(json.dumps(stream.state_dict()))
    assert (state["epoch"], state["done"], state["sample"]) == (0, 140, epochs[0][20][0][0])
    assert (tars / "data/extended" / state["shard"]).is_file()
    again = batches(pipeline(tars, batch_size=7))
    again.load_state_dict(state)
    assert used + list(again) == epochs[0]
    assert list(again) == epochs[1]
    used += [next(running) for _ in range(37)]  # all but one of 400
    again = batches(pipeline(tars, batch_size=7))
    again.load_state_dict(stream.state_dict())
    assert used + list(again) == epochs[0]
    again = batches(pipeline(tars, batch_size=7))
    again.set_epoch(0, start=70)
    next(iter(again))
    state = again.state_dict()
    again = batches(pipeline(tars, batch_size=7))
    again.load_state_dict(state)
    assert list(again) == epochs[0][11:]
    single = pipeline(tars)
    reading = iter(single)
    first = [next(reading)["__key__"] for _ in range(9)]
    again = pipeline(tars)
    again.load_state_dict(single.state_dict())
    assert first + keys(again) == keys(pipeline(tars))
    for wrong in (pipeline(tars, batch_size=7, seed=4), pipeline(tars, batch_size=7, shuffle=0)):
        wrong.load_state_dict(state)
        with pytest.raises(InputError, match="the state is of another pipeline"):
            next(iter(wrong))
    again.load_state_dict({"of": "somebody"})
    with pytest.raises(InputError, match="the state is of another pipeline"):
        next(iter(again))


def test_each_worker_has_a_state_of_its_own(tars, monkeypatch):
    """As a loader that asks its workers for their states takes them, and gives them back."""
    torch = pytest.importorskip("torch.utils.data")

    def worker(number):
        info = SimpleNamespace(id=number, num_workers=2, seed=9 + number)
        monkeypatch.setattr(torch, "get_worker_info", lambda: info)
        stream = pipeline(tars, batch_size=7)
        stream.set_epoch(1)
        return stream.to_tuple("__key__").batched(7)

    for number in range(2):
        expected, stream = list(worker(number)), worker(number)
        running = iter(stream)
        used = [next(running) for _ in range(3 + number)]
        again = worker(number)
        again.load_state_dict(stream.state_dict())
        assert used + list(again) == expected


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


@pytest.mark.slow
def test_a_pipeline_reads_from_a_server_by_few_requests(tars):
    near = keys(pipeline(tars))
    with ranges(tars.parent) as served:
        far = pipeline(f"{served.url}/{tars.name}")
        assert keys(far) == near
        requests = [size for path, size in served.bodies if path.endswith(".tar")]
    assert len(requests) < 200  # of 400 samples in 16 tars
