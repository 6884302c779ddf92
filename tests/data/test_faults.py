"""Damage to a dataset, from its album to a disk: a named error, or the documented fallback."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from PIL import Image

import shiftdata
from builders.make.build import build
from builders.make.check import check
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.schema import SPLITS
from shiftdata.errors import InputError

SHARD = "data/mini/train-00000-of-00001.parquet"
METADATA = "metadata/mini/train.parquet"
FROZEN = "protocols/gf_k2_mu10.parquet"
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
    """The keys that plain `datasets` reads."""
    import datasets

    loaded = datasets.load_dataset(str(folder), config, streaming=True)
    return {split: {row["key"] for row in rows.select_columns(["key"])} for split, rows in loaded.items()}


def own_recipe(folder: Path, pictures: dict[str, int]) -> str:
    """Write a recipe over `pictures` of each label, in two domains by turns."""
    (folder / "pictures").mkdir(parents=True)
    for label, count in pictures.items():
        for number in range(count):
            place = folder / "pictures" / ("here", "there")[number % 2] / label
            place.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (8, 8), (number % 256, number // 256, len(label))).save(place / f"{number}.png")
    (folder / "own.py").write_text(RECIPE)
    return str(folder / "own.py")


# On a user's disk


@pytest.mark.parametrize("at", [0.3, *(pytest.param(at, marks=pytest.mark.slow) for at in (0, 0.5, 0.7, 1))])
@pytest.mark.parametrize(
    "path", [SHARD, METADATA, FROZEN, "README.md", "croissant.json", "preview.jpg", "groups.png"]
)
def test_a_flipped_byte_is_found_in_every_kind_of_file(copy, path, at):
    data = bytearray((copy / path).read_bytes())
    data[min(int(len(data) * at), len(data) - 1)] ^= 1
    (copy / path).write_bytes(data)
    paths = {problem.path for problem in shiftdata.verify(copy)}
    assert path in (paths or {problem.path for problem in check(copy)})


def test_line_endings_of_a_clone_are_reported(copy):
    """As git on Windows converts them."""
    texts = ["ATTRIBUTION.md", "README.md", "croissant.json"]
    for name in texts:
        (copy / name).write_bytes((copy / name).read_bytes().replace(b"\n", b"\r\n"))
    assert [problem.path for problem in shiftdata.verify(copy)] == texts


@pytest.mark.slow
def test_without_metadata_every_other_config_still_loads(copy):
    whole = {name: keys(copy, name) for name in CONFIGS}
    (copy / "metadata/mini/train.parquet").unlink()
    assert {name: keys(copy, name) for name in CONFIGS} == whole
    assert "metadata/mini/train.parquet: is missing" in "\n".join(map(str, shiftdata.verify(copy)))
    with pytest.raises(FileNotFoundError):
        keys(copy, "metadata")


# In the album


LABELS = """Étoile.v2;狗;猫;naïve "quoted";a, b: c;Grüße;Größe;😀 smile;@at;%percent; spaced;#hash;- dash;null
yes;1e3;{brace};back\\slash;'single';|pipe|""".replace("\n", ";").split(";")


def test_names_with_marks_of_any_script_or_yaml_go_all_the_way(tmp_path):
    import datasets

    folder = build(own_recipe(tmp_path, dict.fromkeys(LABELS, 8)), tmp_path / "out", workers=1, quiet=True)
    assert check(folder) == []
    for config in ("all", "metadata"):
        loaded = datasets.load_dataset(str(folder), config, split="train", streaming=True)
        assert loaded.features["label"].names == sorted(LABELS)
        assert len({row["key"] for row in loaded}) == 4 * len(LABELS)


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(InputError, match="has no picture: expected <domain>/<label>/<picture>"):
        build(own_recipe(tmp_path, {}), tmp_path / "out", workers=1, quiet=True)


def test_too_few_pictures_for_three_splits_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"none of them falls into .*test: some label needs at least 4"):
        build(own_recipe(tmp_path, {"cat": 3}), tmp_path / "out", workers=1, quiet=True)
    assert not (tmp_path / "out/shift").exists()


def test_one_row_a_group_is_enough(tmp_path):
    folder = build(own_recipe(tmp_path, {"cat": 8}), tmp_path / "out", workers=1, quiet=True)
    assert check(folder) == []
    assert [len(split) for split in keys(folder, "all").values()] == [4, 2, 2]


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


def test_an_album_of_which_nothing_can_be_used_is_refused(tmp_path):
    recipe = Path(own_recipe(tmp_path, {"a": 8, "b": 8}))
    for number, path in enumerate(recipe.parent.glob("pictures/*/*/*.png")):
        Image.new("RGB", (3, 3), (number, 0, 0)).save(path)
    with pytest.raises(
        InputError, match=r"all 16 pictures of own were dropped: 16: a side below 8 pixels \(3 x 3\)"
    ):
        build(str(recipe), tmp_path / "out", workers=1, quiet=True)
    assert not (tmp_path / "out/shift").exists()


def test_a_label_of_one_origin_is_in_training_alone(tmp_path):
    folder = build(own_recipe(tmp_path, {"a": 8, "b": 1}), tmp_path / "out", workers=1, quiet=True)
    assert check(folder) == []
    assert Manifest.read(folder).labels == ["a", "b"]
    labels = {
        split: set(pq.read_table(folder / f"metadata/all/{split}.parquet")["label"].to_pylist())
        for split in ("train", "test")
    }
    assert labels == {"train": {0, 1}, "test": {0}}
