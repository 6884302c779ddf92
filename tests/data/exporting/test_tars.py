"""Tasks as tars: each row as often as it was drawn, for plain readers; unlabelled sets tell no class."""

from __future__ import annotations

import io
import json
import re
import shutil
import tarfile
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shiftdata as sd
from builders.make.check import check
from shiftdata.cli.app import main
from shiftdata.data.exporting.webdataset import writing
from shiftdata.data.exporting.webdataset.tar import write_tar
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.paths import data_files, index_file
from shiftdata.errors import InputError, IntegrityError, NotFoundError
from shiftdata.evaluation.export import export_tars as export
from shiftdata.evaluation.tasks.rows import counts_of
from tests.builders.test_build import files
from tests.tiny import edit_file, edit_manifest

pytestmark = pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")

CANONICAL = "gf_k2_mu10"


@pytest.fixture(scope="module")
def tars(tiny, drawn, adapted, tmp_path_factory):
    """A base, a canonical split, a task that drew rows several times, and one with an unlabelled set."""
    folder = tmp_path_factory.mktemp("tasks") / "tiny_wds"
    return export(tiny, folder, configs=["mini", CANONICAL], tasks={"drawn": drawn, "adapted": adapted})


def samples(folder, config, name):
    """What is in the tars of a set: each sample's name with its members."""
    found: dict[str, dict[str, bytes]] = {}
    for path in data_files(Manifest.read(folder).files, config, name):
        with tarfile.open(folder / path) as tar:
            for member in tar.getmembers():
                key, _, ending = member.name.partition(".")
                assert ending not in found.setdefault(key, {})
                found[key][ending] = tar.extractfile(member).read()
    return found


def index(folder, config, name):
    paths = data_files(Manifest.read(folder).files, config, name)
    return pa.concat_tables([pq.read_table(folder / index_file(path)) for path in paths])


# --- what lies in them


@pytest.mark.parametrize("config", [CANONICAL, "drawn", "adapted"])
def test_each_set_has_the_rows_of_the_task_as_often_as_they_were_drawn(tiny, tars, drawn, adapted, config):
    task = {"drawn": drawn, "adapted": adapted}.get(config) or sd.task(tiny, config)
    base = Manifest.read(tars).base(config)
    assert base.roles == {name: list(rows.roles) for name, rows in task.sets.items()}
    for name in task.sets:
        counts = counts_of(task, name)
        keys = task.keys(name)
        wanted = Counter(dict(zip(keys, [1] * len(keys) if counts is None else counts.tolist(), strict=True)))
        found = samples(tars, config, name)
        assert Counter(sample.partition("+")[0] for sample in found) == wanted
        assert base.splits[name].rows == len(found) == wanted.total()
        rows = index(tars, config, name)
        assert Counter(rows["key"].to_pylist()) == wanted
        assert all(wanted[row["key"]] == row["count"] for row in rows.select(["key", "count"]).to_pylist())
        assert all(json.loads(of["json"])["key"] == sample.partition("+")[0] for sample, of in found.items())


def test_an_unlabelled_set_tells_no_class(tars, adapted):
    (name,) = (name for name, rows in adapted.sets.items() if rows.role == "unlabelled")
    task_keys, named = set(adapted.keys(name)), set(sd.task(adapted.metadata).metadata.labels)
    for key, members in samples(tars, "adapted", name).items():
        assert set(members) == {"png", "json"}
        told = {column: value for column, value in json.loads(members["json"]).items() if value is not None}
        assert set(told) <= {"key", "style", "severity"}
        assert key == told["key"] in task_keys
        assert not any(label in key for label in named)
    rows = index(tars, "adapted", name)
    seen = {column for column in rows.column_names if rows[column].null_count < len(rows)}
    assert seen == {
        *("key", "style", "severity", "sha256", "count", "copy"),
        *("png_offset", "png_length", "json_offset", "json_length"),
    } - {column for column in ("severity",) if rows["severity"].null_count == len(rows)}
    order = [row["key"] for row in rows.select(["key"]).to_pylist()]
    labels = dict(zip(adapted.keys(name), adapted.metadata.label[adapted.rows(name)].tolist(), strict=True))
    assert order != sorted(order, key=labels.__getitem__)


# --- for plain readers


def test_plain_datasets_loads_a_canonical_split_by_its_name(tiny, tars):
    import datasets

    loaded = datasets.load_dataset(str(tars), CANONICAL)
    task = sd.task(tiny, CANONICAL)
    assert {name: set(of["__key__"]) for name, of in loaded.items()} == {
        name: set(task.keys(name)) for name in task.sets
    }
    assert loaded["train"].features["cls"].names == list(Manifest.read(tars).labels)
    alone = datasets.load_dataset(
        "webdataset", data_files=str(tars / f"data/{CANONICAL}/test-*"), split="train", streaming=True
    )
    assert {sample["__key__"] for sample in alone} == set(task.keys("test"))


def test_plain_datasets_reads_a_set_without_labels(tars, adapted):
    import datasets

    loaded = datasets.load_dataset(str(tars), "adapted", streaming=True)
    for name, rows in adapted.sets.items():
        first = next(iter(loaded[name]))
        assert (first["cls"] is None) == (rows.role == "unlabelled")


def test_the_plain_library_reads_every_sample_once_an_epoch_in_other_orders(tars, monkeypatch):
    import webdataset as wds

    pytest.importorskip("torch")
    from torch.utils.data import DataLoader

    paths = data_files(Manifest.read(tars).files, "mini", "train")
    assert len(paths) >= 4  # 2 nodes of 2 workers
    monkeypatch.setenv("WORLD_SIZE", "2")
    data = wds.WebDataset(
        [str(tars / path) for path in paths], shardshuffle=100, nodesplitter=wds.split_by_node
    )
    loader = DataLoader(
        data.shuffle(100).decode("pil").to_tuple("__key__", "cls"), batch_size=None, num_workers=2
    )
    epochs = []
    for _ in range(3):
        epochs.append([])
        for rank in ("0", "1"):
            monkeypatch.setenv("RANK", rank)
            epochs[-1] += [key for key, _ in loader]
    wanted = sorted(samples(tars, "mini", "train"))
    assert all(sorted(keys) == wanted for keys in epochs)
    assert len({tuple(keys) for keys in epochs}) == 3


def test_croissant_gives_examples_and_labels_with_their_keys(tars):
    import mlcroissant

    document = mlcroissant.Dataset(str(tars / "croissant.json"))
    labels = {
        record["adapted/source_train.cls/key"].decode(): record["adapted/source_train.cls/label"]
        for record in document.records("adapted/source_train.cls")
    }
    assert labels == {
        key: int(members["cls"]) for key, members in samples(tars, "adapted", "source_train").items()
    }
    names = {record.name for record in document.metadata.record_sets}
    assert f"{CANONICAL}/train.png" in names
    (hidden,) = (
        name for name, roles in Manifest.read(tars).base("adapted").roles.items() if roles[0] == "unlabelled"
    )
    assert f"adapted/{hidden}.png" in names
    assert f"adapted/{hidden}.cls" not in names
    assert "The role of the set is unlabelled" in (tars / "croissant.json").read_text()


# --- how they are cut


@given(st.lists(st.integers(0, 100_000), max_size=200), st.integers(1, 400_000))
def test_tars_have_all_samples_no_more_bytes_than_asked_and_are_enough_for_workers(sizes, most):
    order = np.arange(len(sizes))
    parts = writing.cut(order, np.array(sizes, np.int64), most)
    assert np.concatenate([order[:0], *parts]).tolist() == order.tolist()
    assert all(len(part) for part in parts)
    whole = [sum(sizes[row] + writing.BYTES_BESIDE for row in part) for part in parts]
    assert all(size <= most or len(part) == 1 for size, part in zip(whole, parts, strict=True))


def test_a_set_has_tars_for_sixteen_workers_where_it_has_rows_for_them():
    sizes = [len(writing.cut(np.arange(rows), np.full(rows, 10), 10**9)) for rows in (3, 40, 128, 9000)]
    assert sizes == [1, 5, 16, 16]


def test_the_json_of_a_sample_is_one_block(tars):
    found = samples(tars, "mini", "train")
    assert max(len(members["json"]) for members in found.values()) <= tarfile.BLOCKSIZE
    assert all("params" not in json.loads(members["json"]) for members in found.values())
    assert index(tars, "mini", "train")["params"].null_count == 0


# --- exporting


def test_an_export_that_broke_off_goes_on_and_ends_in_the_same_bytes(
    tiny, tars, drawn, adapted, tmp_path, monkeypatch
):
    written = []

    def breaking(path, found):
        if len(written) == 30:
            raise KeyboardInterrupt
        written.append(path)
        return write_tar(path, found)

    out, tasks = tmp_path / "tiny_wds", {"drawn": drawn, "adapted": adapted}
    with monkeypatch.context() as patch:
        patch.setattr(writing, "write_tar", breaking)
        with pytest.raises(KeyboardInterrupt):
            export(tiny, out, configs=["mini", CANONICAL], tasks=tasks)
    assert not out.exists()
    assert files(export(tiny, out, configs=["mini", CANONICAL], tasks=tasks)) == files(tars)


def test_the_command_line_takes_configs_protocols_and_frozen_tasks(tiny, tmp_path, capsys):
    def run(*words):
        status = main(
            [
                "export",
                str(tiny),
                *words,
                "--to",
                "webdataset",
                "--out",
                str(tmp_path / "out"),
                "--overwrite",
                "--quiet",
            ]
        )
        assert status == 0, capsys.readouterr().err
        return {
            base.name: (base.protocol, dict(base.roles)) for base in Manifest.read(tmp_path / "out").bases
        }

    fair = {"train": ["fit"], "validation": ["select"], "test": ["test"]}
    assert run("--config", CANONICAL, "--config", "mini") == {
        "mini": ("", {}),
        CANONICAL: ("group-fairness k=2 mu=0.1", fair),
    }
    adapted = sd.task(tiny, "uda", source="blue", target="red")
    roles = {name: list(rows.roles) for name, rows in adapted.sets.items()}
    assert run("uda", "source=blue", "target=red") == {"uda_blue_red": (adapted.describe(), roles)}
    sd.task(tiny, CANONICAL).freeze(tmp_path / "my-task.parquet")
    assert list(run(str(tmp_path / "my-task.parquet"))) == ["my_task"]
    assert list(run("--base", "content")) == ["content"]


def test_sets_get_names_that_paths_and_datasets_take(tiny, fair, tmp_path):
    import datasets

    sets = {"test/fog@3": fair.sets["test"], "train": fair.sets["train"]}
    out = export(tiny, tmp_path / "out", tasks={"odd": replace(fair, sets=sets)})
    assert list(Manifest.read(out).base("odd").splits) == ["test.fog_3", "train"]
    assert len(datasets.load_dataset(str(out), "odd", split="test.fog_3")) == len(fair.sets["test"])
    with pytest.raises(InputError, match=r"'test/fog@3' would be called 'test.fog_3' in tars, as another"):
        export(
            tiny, tmp_path / "no", tasks={"odd": replace(fair, sets=sets | {"test.fog_3": fair.sets["test"]})}
        )


def test_tasks_that_cannot_be_exported_are_refused(tiny, other, fair, tmp_path):
    with pytest.raises(NotFoundError, match="unknown config 'gf_k9'"):
        export(tiny, tmp_path / "out", configs=["gf_k9"])
    with pytest.raises(InputError, match="mini is a config of tiny: give the task another name"):
        export(tiny, tmp_path / "out", tasks={"mini": fair})
    with pytest.raises(InputError, match=r"the task fair is not of .*: make it again"):
        export(other, tmp_path / "out", tasks={"fair": fair})
    with pytest.raises(InputError, match=r"'\.\./fair' cannot name a task"):
        export(tiny, tmp_path / "out", tasks={"../fair": fair})


# --- verify, build


def test_verify_and_check_find_nothing_wrong(tars):
    assert check(tars) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda task: task["roles"].pop("test"), "does not give each set of the task 'drawn' its roles"),
        (lambda task: task["roles"].update(test=["exam"]), "the roles 'exam'; they are fit, unlabelled"),
        (lambda task: task["roles"].update(test=[]), "does not give each set of the task 'drawn' its roles"),
        (lambda task: task.update(protocol="a\nb"), "a name that has a line break"),
    ],
)
def test_a_manifest_with_a_wrong_task_is_refused(tars, tmp_path, change, said):
    copied = shutil.copytree(tars, tmp_path / "tiny_wds")
    edit_manifest(copied, lambda raw: [change(of["task"]) for of in raw["bases"] if of["name"] == "drawn"])
    with pytest.raises(IntegrityError, match=re.escape(said)):
        sd.open_dataset(copied)


def test_verify_finds_that_a_row_counts_otherwise(tars, tmp_path):
    copied = shutil.copytree(tars, tmp_path / "tiny_wds")
    path = index_file(data_files(Manifest.read(copied).files, "drawn", "train")[0])

    def change(raw):
        table = pq.read_table(io.BytesIO(raw))
        place = table.column_names.index("count")
        sink = io.BytesIO()
        pq.write_table(table.set_column(place, "count", pa.array([9] * len(table), pa.int32())), sink)
        return sink.getvalue()

    edit_file(copied, path, change)
    assert [(problem.path, problem.kind) for problem in sd.verify(copied)] == [("index/drawn", "content_id")]
