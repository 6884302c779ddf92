"""What may befall a dataset, from its album to a disk: a named error, or the fallback that is documented."""

from __future__ import annotations

import json
from pathlib import Path

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import shiftdata
from builders.make.build import build
from builders.make.check import check
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.schema import SPLITS
from shiftdata.errors import InputError, IntegrityError

SHARD = "data/mini/train-00000-of-00001.parquet"
CONFIGS = ["content", "mini", "extended", "gf_k2_mu10", "gf_k4_mu20_s1"]

RECIPE = """
from pathlib import Path

from builders.albums.folder import FolderAlbum
from builders.recipe import Base, Recipe
from builders.shifts.steps import Domains
from builders.encode import ImageEncoding

RECIPE = Recipe(
    name="own",
    family="domain",
    version="1.0.0",
    released="2026-01-31",
    title="Own",
    summary="Own pictures.",
    creators=("A. Maker",),
    citation="None.",
    album=FolderAlbum(
        Path(__file__).parent / "pictures", layout=("domain", "label"), license="MIT", attribution="A. Maker"
    ),
    nuisance="domain",
    shift=Domains(names=("here", "there")),
    encoding=ImageEncoding(format="png"),
    bases=(Base(name="all", summary="All."),),
    default_base="all",
)
"""


def keys(folder: Path, config: str) -> dict[str, set[str]]:
    """What plain `datasets` reads."""
    loaded = datasets.load_dataset(str(folder), config, streaming=True)
    return {split: {row["key"] for row in rows.select_columns(["key"])} for split, rows in loaded.items()}


def own_recipe(folder: Path, pictures: dict[str, int]) -> str:
    """A recipe over so many pictures of each label, in two domains by turns."""
    (folder / "pictures").mkdir(parents=True)
    for label, count in pictures.items():
        for number in range(count):
            place = folder / "pictures" / ("here", "there")[number % 2] / label
            place.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (8, 8), (number % 256, number // 256, len(label))).save(place / f"{number}.png")
    (folder / "own.py").write_text(RECIPE)
    return str(folder / "own.py")


# On a user's disk


@pytest.mark.parametrize(
    "path",
    [SHARD, "metadata/mini/train.parquet", "protocols/gf_k2_mu10.parquet", "preview.jpg", "groups.png"],
)
def test_a_flipped_byte_is_found_in_every_kind_of_file(copy, path):
    data = bytearray((copy / path).read_bytes())
    data[len(data) // 2] ^= 1
    (copy / path).write_bytes(data)
    assert [problem.path for problem in shiftdata.verify(copy)].count(path) >= 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["README.md", "croissant.json"])
def test_a_changed_letter_is_found_in_every_text(copy, name):
    text = (copy / name).read_text()
    (copy / name).write_text(text.replace("Made shapes", "Maid shapes", 1))
    for problems in (shiftdata.verify(copy), check(copy)):
        assert [problem.path for problem in problems] == [name]


def test_a_changed_letter_is_found_in_the_manifest(copy):
    text = (copy / "manifest.json").read_text()
    (copy / "manifest.json").write_text(text.replace("Made shapes", "Maid shapes", 1))
    for use in (shiftdata.verify, check, shiftdata.load_dataset):
        with pytest.raises(IntegrityError, match="is damaged, was edited"):
            use(copy)


@pytest.mark.slow
def test_without_metadata_every_other_config_still_loads(copy):
    whole = {name: keys(copy, name) for name in CONFIGS}
    (copy / "metadata/mini/train.parquet").unlink()
    assert {name: keys(copy, name) for name in CONFIGS} == whole
    assert "metadata/mini/train.parquet: is missing" in "\n".join(map(str, shiftdata.verify(copy)))
    with pytest.raises(FileNotFoundError):
        keys(copy, "metadata")


@pytest.mark.slow
def test_a_shard_that_was_written_again_gives_the_same_rows(copy):
    whole = {name: keys(copy, name) for name in CONFIGS}
    pq.write_table(pq.read_table(copy / SHARD), copy / SHARD, row_group_size=7, compression="gzip")
    assert {name: keys(copy, name) for name in CONFIGS} == whole
    (problem,) = shiftdata.verify(copy)
    assert "bytes, the manifest says" in problem.what
    assert "it contains rows 0 to 199 of mini/train" in problem.what


def test_a_truncated_shard_is_named_and_hides_no_other_config(copy):
    (copy / SHARD).write_bytes((copy / SHARD).read_bytes()[:-100])
    assert SHARD in {problem.path for problem in shiftdata.verify(copy)}
    assert keys(copy, "content")["train"]
    with pytest.raises(pa.ArrowInvalid):
        keys(copy, "mini")


@pytest.mark.slow
@pytest.mark.parametrize("change", [lambda text: text.replace("\n", "\r\n"), lambda text: text + "\nMine.\n"])
def test_an_edited_card_still_loads_and_is_named(copy, change):
    whole = {name: keys(copy, name) for name in CONFIGS}
    card = copy / "README.md"
    card.write_bytes(change(card.read_text()).encode())
    assert {name: keys(copy, name) for name in CONFIGS} == whole
    assert [problem.path for problem in check(copy)] == ["README.md"]


def test_a_manifest_of_a_newer_format_says_what_to_do(copy):
    told = json.loads((copy / "manifest.json").read_text())
    (copy / "manifest.json").write_text(json.dumps(told | {"format": 2, "unheard_of": 1}))
    for use in (shiftdata.info, shiftdata.verify, shiftdata.load_dataset):
        with pytest.raises(IntegrityError, match=r"manifest format 2; .*install a newer shiftdata"):
            use(copy)


def test_a_link_out_of_the_folder_is_refused(copy, tmp_path):
    (copy / SHARD).rename(tmp_path / "elsewhere.parquet")
    (copy / SHARD).symlink_to(tmp_path / "elsewhere.parquet")
    assert f"{SHARD}: points out of the dataset's folder" in "\n".join(map(str, shiftdata.verify(copy)))


# In the album


def test_names_with_dots_marks_and_any_script_go_all_the_way(tmp_path):
    labels = {
        "Étoile.v2": 20,
        "狗": 20,
        "猫": 20,
        'naïve "quoted"': 20,
        "a, b: c": 20,
        "Grüße": 20,
        "Größe": 20,
    }
    folder = build(own_recipe(tmp_path, labels), tmp_path / "out", workers=1, quiet=True)
    assert check(folder) == []
    loaded = datasets.load_dataset(str(folder), split="train")
    assert set(loaded.features["label"].names) == set(labels)
    assert len(set(loaded["key"])) == len(loaded)


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(InputError, match="has no picture: expected <domain>/<label>/<picture>"):
        build(own_recipe(tmp_path, {}), tmp_path / "out", workers=1, quiet=True)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_too_few_pictures_for_three_splits_are_refused(tmp_path, count):
    with pytest.raises(InputError, match=r"none of them falls into .*test: some label needs at least 4"):
        build(own_recipe(tmp_path, {"cat": count}), tmp_path / "out", workers=1, quiet=True)
    assert not (tmp_path / "out/shift").exists()


def test_one_row_a_group_is_enough(tmp_path):
    folder = build(own_recipe(tmp_path, {"cat": 8}), tmp_path / "out", workers=1, quiet=True)
    assert check(folder) == []
    assert [len(found) for found in keys(folder, "all").values()] == [4, 2, 2]


@pytest.mark.slow
def test_ten_thousand_classes(tmp_path):
    labels = {f"class {number:05d}": 4 for number in range(10_000)}
    folder = build(own_recipe(tmp_path, labels), tmp_path / "out", quiet=True)
    card = (folder / "README.md").read_bytes()
    assert len(card) < 20_000
    manifest = Manifest.read(folder)
    assert len(manifest.labels) == 10_000
    assert [manifest.base("all").splits[split].rows for split in SPLITS] == [20_000, 10_000, 10_000]
    # Classes of a few rows share row groups: ten thousand of them would make a footer larger than the data.
    assert pq.read_metadata(folder / "data/all/train-00000-of-00001.parquet").num_row_groups < 1_000
    assert check(folder) == []
