"""ImageNet's family from its files: BREEDS' superclasses, renditions, corruptions, forms of public tools."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from builders.raw.checking import check
from builders.raw.imagenet import NO_CLASS, TWICE, UNKNOWN, breeds, labels, nodes
from builders.raw.sources import source
from shiftdata.errors import InputError
from tests.builders.raw_albums import album_of
from tests.builders.replicas import imagenet as replica
from tests.builders.replicas.drawing import put
from tests.paths import ROOT

#: The first 16 digits of the sha256 of what the authors' generator gives.
HASHES = {
    "entity13": "7b3817680176f06a",
    "entity30": "5d5bb0571a75c1c1",
    "living17": "ea36d04b3a996021",
    "nonliving26": "0b506babeaf7403a",
}
#: A class of Living-17.
NUMBER = breeds()["living17"][0]["source"][0]
NODE = replica.NODES[NUMBER]
VALIDATION = "ILSVRC2012_val_00000041"
LINES = "".join(f"{NODE if number == 41 else 'n01440764'}\n" for number in range(1, 51))


class TestBreeds:
    @pytest.mark.parametrize("name", HASHES)
    def test_the_four_datasets_are_those_of_the_authors_generator(self, name):
        halves = [[superclass[half] for superclass in breeds()[name]] for half in ("source", "target")]
        assert hashlib.sha256(json.dumps(halves).encode()).hexdigest().startswith(HASHES[name])
        assert all(not {*source} & {*target} for source, target in zip(*halves, strict=True))
        names = {superclass["name"] for superclass in breeds()[name]}
        assert len(names) == len(breeds()[name]) == int(re.sub("[a-z]", "", name))

    def test_the_classes_are_the_1000_in_the_order_of_their_ids(self):
        assert list(nodes()) == sorted(nodes())
        assert len(set(labels())) == 1000
        assert labels()[999] == "999_toilet tissue"


@pytest.fixture(scope="module")
def raw(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("imagenet")
    replica.make("living17", root)
    return root


class TestTrees:
    def test_rows_have_the_superclass_the_half_and_the_list(self, raw):
        of = {
            number: (breed["name"], half)
            for breed in breeds()["living17"]
            for half, numbers in ((1, breed["source"]), (2, breed["target"]))
            for number in numbers
        }
        for item in album_of("living17", raw).items():
            name, half = of[item.source["class"]]
            file = str(item.source["file"])
            assert item.label == name
            assert item.nuisance == f"imagenet{'v2' if replica.SECOND in file else ''}_{half}"
            part = file.split("/")[0]
            assert set(item.source["lists"]) == {"files"} | ({part} & {"train", "val"})

    def test_the_order_of_the_files_is_that_of_folders_as_texts(self, raw):
        second = [
            item for item in album_of("living17", raw).items() if item.nuisance.startswith("imagenetv2")
        ]
        second.sort(key=lambda item: item.source["lists"]["files"])
        folders = [str(item.source["file"]).split("/")[1] for item in second]
        assert folders == sorted(folders)
        assert folders != sorted(folders, key=int)

    def test_what_is_not_of_a_class_is_named(self, raw):
        node = replica.NODES[breeds()["living17"][0]["source"][0]]
        left_out = album_of("living17", raw).left_out
        assert list(left_out.values()).count(NO_CLASS) == 34  # the replica has a class of each half
        assert {file: why for file, why in left_out.items() if why != NO_CLASS} == {
            "val/ILSVRC2012_val_00099999.JPEG": UNKNOWN,
            "train/n99999999/n99999999_1.JPEG": "n99999999 is not one of the 1,000 classes",
            f"train/n99999999/{node}_77.JPEG": (
                f"its name is of {node}, and it is in the folder of another class"
            ),
            f"{replica.SECOND}/README/1.jpeg": "not in a folder with the number of a class",
            f"train/{node}/copy.JPEG": f"its name is not {node}_<number> or ILSVRC2012_val_<number>",
        }

    def test_renditions_have_the_style_before_the_last_sign(self, tmp_path):
        replica.renditions(tmp_path)
        album = album_of("imagenet_r", tmp_path)
        assert Counter(item.nuisance for item in album.items()) == {"art": 6, "videogame": 3, "sketch": 3}
        assert album.left_out == {
            "imagenet-r/art_5.jpg": "its path does not end in <WordNet id>/<style>_<number>.jpg",
            f"imagenet-r/{replica.NODES[0]}/hologram_1.jpg": "hologram is not a domain of this dataset",
        }

    def test_a_picture_is_the_origin_of_all_its_corruptions(self, tmp_path):
        replica.corrupted(tmp_path)
        album = album_of("imagenet_c", tmp_path)
        of: dict[str, set[tuple[Any, ...]]] = {}
        for item in album.items():
            of.setdefault(item.origin, set()).add((item.nuisance, item.severity))
        assert len(of) == 20
        every = {(name, float(step)) for name in ("fog", "gaussian_noise") for step in range(1, 6)}
        assert all(one == every for one in of.values())
        whys = Counter(album.left_out.values())
        assert whys == {
            "its trajectory lacks severity 3": 4 * 4,
            "its trajectory lacks severity 2, 3, 4": 2,
            "its path does not end in <corruption>/<1 to 5>/<class>/ILSVRC2012_val_<number>.JPEG": 1,
            TWICE: 1,
        }


#: Trees that public tools leave or want, and how many pictures of each domain or list a recipe reads of them.
FORMS: Mapping[str, tuple[str, Mapping[str, str | None], Mapping[str, int]]] = {
    "Kaggle": (
        "living17",
        {
            f"ILSVRC/Data/CLS-LOC/train/{NODE}/{NODE}_10.JPEG": None,
            f"ILSVRC/Data/CLS-LOC/val/{VALIDATION}.JPEG": None,
            "ILSVRC/Data/CLS-LOC/test/ILSVRC2012_test_00000001.JPEG": None,
            "LOC_val_solution.csv": f"ImageId,PredictionString\n{VALIDATION},{NODE} 85 1 499 272 \n",
        },
        {"imagenet_1": 2},
    ),
    "torchvision": (  # it sorts the validation pictures, and leaves the archives' copies where they are
        "living17",
        {
            f"train/{NODE}/{NODE}_10.JPEG": None,
            f"val/{NODE}/{VALIDATION}.JPEG": None,
            f"{VALIDATION}.JPEG": None,
        },
        {"imagenet_1": 2},
    ),
    "the Hub's archives": (
        "living17",
        {f"{NODE}_10_{NODE}.JPEG": None, f"{VALIDATION}_{NODE}.JPEG": None},
        {"imagenet_1": 2},
    ),
    "a WordNet id a line": (
        "living17",
        {f"val/{VALIDATION}.JPEG": None, "imagenet_2012_validation_synset_labels.txt": LINES},
        {"imagenet_1": 1},
    ),
    "Caffe": (
        "living17",
        {f"val/{VALIDATION}.JPEG": None, "val.txt": f"{VALIDATION}.JPEG {NUMBER}\n"},
        {"imagenet_1": 1},
    ),
    "one sample a class": ("living17", {f"{NODE}_salamander.JPEG": None}, {"imagenet_1": 1}),
    "ImageNetV2 in folders of WordNet ids": (
        "imagenet_v2",
        {f"imagenetv2-matched-frequency/{NODE}/0a1b.jpeg": None},
        {"imagenetv2": 1},
    ),
    "next to ImageNet": (
        "imagenet_r",
        {f"train/{NODE}/{NODE}_10.JPEG": None, f"imagenet-r/{NODE}/art_0.jpg": None},
        {"art": 1},
    ),
    "ImageNet-C in folders of its archives": (
        "imagenet_c",
        {f"weather/fog/{step}/{NODE}/{VALIDATION}.JPEG": None for step in range(1, 6)},
        {"fog": 5},
    ),
    "fast.ai": (
        "imagenette",
        {
            f"imagenette2-160/{part}/n01440764/{name}.JPEG": None
            for part, name in (("train", "ILSVRC2012_val_00000293"), ("val", "n01440764_141"))
        },
        {"train": 1, "val": 1},
    ),
    "one folder a class": (
        "uc_merced",
        {f"UCMerced_LandUse/Images/beach/beach{number:02}.png": None for number in range(3)},
        {"": 3},
    ),
    "CIFAR-10 in folders": (
        "cifar10_images",
        {f"{part}/truck/0000.jpg": None for part in ("train", "test")},
        {"train": 1, "test": 1},
    ),
}

#: Trees in which something lacks, or has other pixels than the authors' files, and what the error names.
LACKING = [
    ("living17", f"val/{VALIDATION}.JPEG", r"put LOC_val_solution\.csv next to it"),
    ("cifar10", "cifar10/train/cat/0000.jpg", "data_batch_1: missing"),
    ("cifar10_c", "cifar10_c/fog/3/000/00001.jpg", r"gaussian_noise\.npy: missing"),  # Dassl's
    (
        "imagenet_c",
        f"fog/{NODE}/{VALIDATION}.JPEG",
        "its path does not end in <corruption>/<1 to 5>/<class>/",
    ),
]


class TestForms:
    @pytest.mark.parametrize("form", FORMS)
    def test_a_tree_of_a_public_tool_is_read(self, form, tmp_path):
        name, files, counts = FORMS[form]
        for file, text in files.items():
            put(tmp_path, file, text)
        items = album_of(name, tmp_path).items()
        groups = (item.nuisance or next(iter(item.source.get("lists", [""]))) for item in items)
        assert Counter(groups) == counts

    def test_forms_have_the_same_rows(self, tmp_path):
        rows = set[tuple[tuple[str, ...], ...]]()
        for form in ("Kaggle", "torchvision", "the Hub's archives"):
            for file, text in FORMS[form][1].items():
                put(tmp_path / form, file, text or b"the same picture")
            items = album_of("living17", tmp_path / form).items()
            rows.add(tuple((item.key, item.label, item.nuisance or "", item.origin) for item in items))
        assert len(rows) == 1

    @pytest.mark.parametrize(("name", "file", "missing"), LACKING)
    def test_the_file_that_lacks_is_named(self, name, file, missing, tmp_path):
        put(tmp_path, file)
        with pytest.raises(InputError, match=missing):
            album_of(name, tmp_path).items()

    def test_a_check_names_the_classes_that_lack(self, tmp_path):
        put(tmp_path, "imagenette2/train/n01440764/n01440764_1.JPEG")
        put(tmp_path, "imagenette2/train/n02099601/n02099601_1.JPEG")  # Imagewoof's
        findings = check(source("imagenette"), album_of("imagenette", tmp_path), tmp_path).findings
        told = {finding.what: finding.files for finding in findings}
        assert told["n02099601 is not a label of this dataset"] == (
            "imagenette2/train/n02099601/n02099601_1.JPEG",
        )
        assert "491_chain saw" in told["no picture of the class"]


class TestOwnPaths:
    """The file that docs/raw/declared.md shows."""

    @pytest.fixture
    @staticmethod
    def declared(tmp_path) -> Path:
        page = (ROOT / "docs/raw/declared.md").read_text(encoding="utf-8")
        (text,) = (block for block in re.findall(r"```toml\n(.*?)```", page, re.DOTALL) if "shells" in block)
        put(tmp_path, "shells.toml", text)
        return tmp_path / "shells.toml"

    def test_the_example_of_the_page_is_read(self, declared, tmp_path):
        for file in ("train/Cone/1.jpg", "val/cone/1.jpg", "val/whelk/1.jpg"):
            put(tmp_path, f"raw/{file}")
        album = album_of(str(declared), tmp_path / "raw")
        assert [(item.label, *item.source["lists"]) for item in album.items()] == [
            ("cone", "train"),
            ("cone", "val"),
        ]
        assert album.left_out == {"val/whelk/1.jpg": "whelk is not a label of this dataset"}

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ("(?P<label>", "(?P<class_>", r"has the groups class_, list: name \(\?P<label>"),
            ("(?P<label>", "(?P<label>(", "cannot be used: missing \\)"),
            ("{list} {name}", "{number}", "cannot be used: 'number'"),
        ],
    )
    def test_a_pattern_that_cannot_be_used_is_refused(self, old, new, message, declared, tmp_path):
        declared.write_text(declared.read_text().replace(old, new))
        with pytest.raises(InputError, match=message):
            album_of(str(declared), tmp_path)
