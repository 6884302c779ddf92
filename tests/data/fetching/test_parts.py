"""A part of a dataset: the same rows and bytes, a dataset of its own, for every kind of data."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shiftdata as sd
from builders.make.check import check
from shiftdata.data.exporting.webdataset import export
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.schema import SPLITS
from shiftdata.data.loading.byte_ranges import ExampleReader
from shiftdata.errors import InputError, NotFoundError, StorageError
from shiftdata.evaluation.verify import verify
from tests.data.fetching.conftest import copied, flip, same
from tests.properties import share


def rows(folder: Path, base: str, split: str) -> pa.Table:
    """The data rows of a split as plain pyarrow reads them."""
    files = sorted((folder / "data" / base).glob(f"{split}-*.parquet"))
    return pa.concat_tables([pq.read_table(file) for file in files])


def held(folder: Path) -> dict[str, dict[str, int]]:
    """What plain `datasets` counts in each config."""
    import datasets

    found = {}
    for name in Manifest.read(folder).configs:
        loaded = datasets.load_dataset(str(folder), name, streaming=True)
        found[name] = {
            split: sum(1 for _ in stream.select_columns(["key"])) for split, stream in loaded.items()
        }
    return found


def checked(part: Path, whole: Path, base: str, keep: pc.Expression) -> None:
    """Compare a part with the rows of the whole that an expression keeps."""
    manifest = Manifest.read(part)
    assert verify(part) == []
    for split in SPLITS:
        expected = rows(whole, base, split).filter(keep)
        assert (split in manifest.base(base).splits) == bool(len(expected))
        if len(expected):
            found = rows(part, base, split)
            assert found.equals(expected)
            assert found.schema.metadata == expected.schema.metadata
    for name, counts in held(part).items():
        assert counts == {split: one.rows for split, one in manifest.splits_of(name).items()}


def test_some_nuisances_of_every_kind(kind):
    manifest = Manifest.read(kind)
    nuisance, base = manifest.roles.nuisance, manifest.default_base
    chosen = [manifest.nuisances[1], manifest.nuisances[0]]
    part = sd.fetch(kind, select={nuisance: chosen}, out="part")
    checked(part, kind, base, pc.field(nuisance).isin([0, 1]))
    made = Manifest.read(part)
    assert made.part is not None
    assert made.part.conditions == [(nuisance, "in", [0, 1])]
    assert made.part.content_id == manifest.content_id
    assert (made.name, made.labels, made.nuisances) == (manifest.name, manifest.labels, manifest.nuisances)
    readme = (part / "README.md").read_text()
    assert f"{nuisance}={manifest.nuisances[0]},{manifest.nuisances[1]}" in readme
    assert made.license in readme
    task = sd.task(part)
    with ExampleReader(part, base, verify=True) as reader:
        assert len(reader.read(range(len(reader)))) == sum(map(len, map(task.keys, task.sets)))


def test_a_label_a_split_and_numbers_of_every_kind(kind):
    base = Manifest.read(kind).default_base
    part = sd.fetch(kind, select=["label=0", "quantile<0.5"], split="test", out="part")
    keep = (pc.field("label") == 0) & (pc.field("quantile") < 0.5) & (pc.field("split") == "test")
    checked(part, kind, base, keep)
    assert list(Manifest.read(part).base(base).splits) == ["test"]
    assert sd.load_dataset(part, split="test").num_rows == len(rows(part, base, "test"))


def test_a_base_comes_as_its_files_are(kind):
    manifest = Manifest.read(kind)
    bases = {base.name: base for base in manifest.bases}
    for name, base in bases.items():
        part = sd.fetch(kind, config=name, out=f"parts/{name}")
        if len(bases) == 1:
            assert same(part, kind)
            continue
        for path in set(Manifest.read(part).files) - {
            "ATTRIBUTION.md",
            "README.md",
        }:  # they are about the part
            assert (part / path).read_bytes() == (kind / path).read_bytes()
        made = Manifest.read(part)
        assert made.base(name) == base
        assert [split.name for split in made.canonical_splits] == [
            split.name for split in manifest.canonical_splits if split.base == name
        ]
        checked(part, kind, name, pc.scalar(True))


def test_a_canonical_split_is_its_frozen_keys(tiny):
    import datasets

    part = sd.fetch(tiny, config="gf_k2_mu10", out="part")
    frozen = pq.read_table(tiny / "protocols/gf_k2_mu10.parquet").to_pylist()
    loaded = datasets.load_dataset(str(part), "gf_k2_mu10")
    assert {(row["key"], row["split"]) for row in frozen} == {
        (key, split) for split in loaded for key in loaded[split]["key"]
    }
    assert sum(map(len, loaded.values())) == len(frozen)
    whole, made = Manifest.read(tiny), Manifest.read(part)
    assert made.splits_of("gf_k2_mu10") == whole.splits_of("gf_k2_mu10") == made.base("mini").splits
    assert (part / "protocols/gf_k2_mu10.parquet").read_bytes() == (
        tiny / "protocols/gf_k2_mu10.parquet"
    ).read_bytes()
    assert verify(part) == []
    tasks = [sd.task(folder, "group-fairness", k=2, mu=0.1) for folder in (part, tiny)]
    assert [set(tasks[0].keys(name)) for name in tasks[0].sets] == [
        set(tasks[1].keys(name)) for name in tasks[1].sets
    ]


def test_a_part_is_the_same_from_every_place(tiny, server, memory):
    select = {"style": [0, 1]}
    local = sd.fetch(tiny, select=select, split=["test", "train"], out="local")
    swapped = {"style": Manifest.read(tiny).nuisances[1::-1]}
    for number, place in enumerate([f"{server.url}/tiny", memory]):
        assert same(sd.fetch(place, select=swapped, split=["train", "test"], out=f"other/{number}"), local)


@share(0.25)
@given(
    labels=st.sets(st.integers(0, 3), min_size=1),
    styles=st.sets(st.integers(0, 4), min_size=1),
    quantile=st.sampled_from([0.2, 0.75, 1.0]),
    split=st.sampled_from([None, "train", "validation"]),
)
def test_any_selection_is_the_rows_that_pyarrow_keeps(
    tiny, tmp_path_factory, labels, styles, quantile, split
):
    out = tmp_path_factory.mktemp("any") / "part"
    select = [
        f"label={','.join(map(str, labels))}",
        f"style={','.join(map(str, styles))}",
        f"quantile<{quantile}",
    ]
    part = sd.fetch(tiny, select=select, split=split, out=out)
    keep = pc.field("label").isin(list(labels)) & pc.field("style").isin(list(styles))
    keep &= pc.field("quantile") < quantile
    found = [rows(part, "mini", one) for one in Manifest.read(part).base("mini").splits]
    wanted = [rows(tiny, "mini", one).filter(keep) for one in ([split] if split else SPLITS)]
    assert pa.concat_tables(found).equals(pa.concat_tables(wanted))
    assert verify(part) == []


def test_a_part_costs_its_metadata_and_its_examples(tiny, server):
    server.several = "well"
    part = sd.fetch(f"{server.url}/tiny", select={"style": [2]}, out="part")
    lengths = [pq.read_table(path)["length"].to_numpy() for path in part.glob("metadata/*/*.parquet")]
    needed = int(np.concatenate(lengths).sum())
    heads = 120 * sum(map(len, lengths))  # around each range of an answer
    metadata = sum(
        one.bytes for path, one in Manifest.read(tiny).files.items() if path.startswith("metadata/mini/")
    )
    assert metadata <= server.fetched("/metadata/") <= metadata + 3  # a byte a file: are there ranges?
    assert needed <= server.fetched("/data/") <= needed * 1.02 + heads
    assert not [path for path, _ in server.bodies if "content" in path or "extended" in path]


@pytest.mark.slow
def test_a_killed_part_goes_on_with_the_images_that_came(tiny, server):
    code = (
        "import sys, shiftdata as sd; from shiftdata.data.format import writer;"
        "writer.BYTES_AT_ONCE = 20000;"
        "sd.fetch(sys.argv[1], config='extended', select=['label=0,1'], out='out')"
    )
    server.always = "slow"
    process = subprocess.Popen([sys.executable, "-c", code, f"{server.url}/tiny"])
    deadline = time.monotonic() + 60
    while server.fetched("/data/") < 150_000 and time.monotonic() < deadline:
        time.sleep(0.01)
    process.kill()
    process.wait()
    assert not Path("out").exists()
    before = server.fetched("/data/")
    server.always = "well"
    part = sd.fetch(f"{server.url}/tiny", config="extended", select=["label=0,1"], out="out")
    needed = sum(int(pc.sum(pq.read_table(path)["length"]).as_py()) for path in part.glob("metadata/*/*"))
    assert before > 100_000
    assert server.fetched("/data/") < needed * 1.1 + 60_000
    assert server.fetched("/metadata/") <= 2 * sum(
        one.bytes for path, one in Manifest.read(tiny).files.items() if path.startswith("metadata/extended/")
    )
    assert same(part, sd.fetch(tiny, config="extended", select=["label=0,1"], out="other"))
    assert sorted(path.name for path in Path().iterdir()) == ["other", "out"]


def test_a_part_that_is_here_stays_and_a_damaged_one_is_made_again(tiny):
    ask = {"select": {"style": [2]}, "out": "part"}
    part = sd.fetch(tiny, **ask)
    before = (part / "manifest.json").stat().st_ino
    assert (sd.fetch(tiny, **ask) / "manifest.json").stat().st_ino == before
    flip(next(part.glob("data/mini/*")))
    assert verify(sd.fetch(tiny, **ask)) == []
    with pytest.raises(InputError, match="another part"):
        sd.fetch(tiny, select={"style": [1]}, out="part")
    other = sd.fetch(tiny, select={"style": [1]}, out="part", replace=True)
    assert same(other, sd.fetch(tiny, select={"style": [1]}, out="fresh"))
    assert same(sd.fetch(tiny, out="part", replace=True), tiny)


def test_a_part_of_the_whole_that_is_here(tiny):
    whole = copied(tiny, Path("shift/tiny"))
    part = sd.fetch("tiny", config="gf_k2_mu10", offline=True)
    assert part == Path("shift/tiny-gf_k2_mu10")
    assert same(part, sd.fetch(whole, config="gf_k2_mu10", out="other"))


def test_default_folders_say_what_they_hold(tiny):
    names = [
        sd.fetch(tiny, config="gf_k2_mu10").name,
        sd.fetch(tiny, select=["style=0,1", "quantile<=0.3"], split="train").name,
    ]
    assert names == ["tiny-gf_k2_mu10", "tiny-0-1-quantile-to-0.3-train"]
    assert sd.info("tiny-gf_k2_mu10").part is not None


def test_bad_selections_are_answered(tiny):
    def refused(kind: type[Exception], said: str, **ask: object) -> None:
        with pytest.raises(kind, match=said):
            sd.fetch(tiny, out="out", **ask)

    style = Manifest.read(tiny).nuisances[0]
    refused(NotFoundError, "unknown column 'stile'; did you mean 'style'", select={"stile": style})
    refused(NotFoundError, f"unknown style '{style}x'; did you mean '{style}'", select={"style": f"{style}x"})
    refused(NotFoundError, "unknown label '99'", select={"label": 99})
    refused(NotFoundError, "unknown config 'gf_k2_mu1'; did you mean 'gf_k2_mu10'", config="gf_k2_mu1")
    refused(NotFoundError, "unknown config 'metadata'", config="metadata")
    refused(NotFoundError, "unknown split 'trian'; did you mean 'train'", split="trian")
    refused(InputError, "splits are chosen by --split", select={"split": "train"})
    refused(
        InputError,
        "no row of mini is selected by mini label=.* quantile<0: nothing to fetch",
        select=["quantile<0", "label=0"],
    )
    refused(InputError, "'style' is not a condition: write COLUMN=VALUE", select=["style"])
    refused(InputError, "only severity, quantile, fold can be compared", select=["style<=3"])
    refused(InputError, "'much' is not one", select=["severity<=much"])
    refused(InputError, "jobs must be at least 1", jobs=0)
    assert not list(Path().glob("out"))


def test_a_part_is_not_a_whole(tiny, tmp_path):
    part = sd.fetch(tiny, select={"style": [2]}, out=tmp_path / "tiny")
    (problem,) = check(part)
    assert "is a part of tiny" in problem.what
    assert "publish the whole" in problem.what
    with pytest.raises(InputError, match="is a part itself"):
        sd.fetch(part, select={"label": [0]}, out="out")
    assert same(sd.fetch(part, out="copy"), part)


def test_a_part_can_be_exported_as_tars(tiny):
    part = sd.fetch(tiny, select={"style": [2]}, split="test", out="part")
    tars = export(part, Path("tars"))
    assert verify(tars) == []
    with pytest.raises(InputError, match="is in WebDataset format, which has no parts"):
        sd.fetch(tars, select={"style": [2]}, out="out")
    assert same(sd.fetch(tars, out="copy"), tars)


def test_no_place_gives_the_examples(tiny, tmp_path):
    bad = copied(tiny, tmp_path / "bad")
    for path in (bad / "data/mini").iterdir():
        path.unlink()
    with pytest.raises(StorageError) as caught:
        sd.fetch(bad, select={"style": [2]}, split="test", out="out")
    said = str(caught.value)
    assert "data/mini/test (" in said
