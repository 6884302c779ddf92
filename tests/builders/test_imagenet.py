"""ImageNet's family from its files: BREEDS' superclasses, numbers of folders, renditions, corruptions."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from builders.raw.breeds import CUTS, breeds, short_hash, text_of
from builders.raw.imagenet import TWICE, classes, labels
from tests.builders.raw_albums import album_of
from tests.builders.replicas import imagenet as replica

#: The first 16 digits of the sha256 of what the authors' generator gives.
HASHES = {
    "entity13": "7b3817680176f06a",
    "entity30": "5d5bb0571a75c1c1",
    "living17": "ea36d04b3a996021",
    "nonliving26": "0b506babeaf7403a",
}


TOP = "n00001740"
#: Two superclasses of three branches each; one of them is below a node without a name.
EDGES = {
    TOP: "beast thing",
    "beast": "dummy1",
    "dummy1": "cats dogs fish",
    "cats": "c1 c2 c3",
    "dogs": "d1 d2",
}
EDGES |= {"fish": "f1", "thing": "tools", "tools": "t1 t2 t3 t4 t5 t6"}


class TestBreeds:
    @pytest.mark.parametrize("name", CUTS)
    def test_the_four_datasets_are_those_of_the_authors_generator(self, name):
        superclasses = breeds(name)
        assert short_hash(superclasses) == HASHES[name]
        assert all(not {*superclass.source} & {*superclass.target} for superclass in superclasses)
        assert (
            len({superclass.name for superclass in superclasses})
            == len(superclasses)
            == int(re.sub("[a-z]", "", name))
        )

    def test_the_table_is_written_as_it_is_read(self, tmp_path):
        from builders.raw.breeds import TABLE

        assert "\n".join(text_of({name: breeds(name) for name in CUTS})) + "\n" == TABLE.read_text("utf-8")


@pytest.fixture(scope="module")
def raw(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("imagenet")
    replica.make("living17", root)
    return root


class TestTrees:
    def test_rows_have_the_superclass_the_half_and_the_list(self, raw):
        of = {number: (breed.name, half) for breed in breeds("living17")
              for half, numbers in ((1, breed.source), (2, breed.target)) for number in numbers}  # fmt: skip
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
        node = replica.NODES[breeds("living17")[0].source[0]]
        assert album_of("living17", raw).left_out == {
            "val/ILSVRC2012_val_00099999.JPEG": (
                "its class is not known: neither its folder nor a table loc_val_solution.csv says it"
            ),
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
            "imagenet-r/art_5.jpg": "not in the folder of one of the 1,000 classes",
            f"imagenet-r/{replica.NODES[0]}/hologram_1.jpg": (
                "its name is not <style>_<number> with one of 15 styles"
            ),
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
            "missing in severity 3": 4 * 4,
            "missing in severity 2, 3, 4": 2,
            "not <corruption>/<1 to 5>/<class>/ILSVRC2012_val_<number>.JPEG": 1,
            TWICE: 1,
        }

    def test_the_classes_are_the_1000_in_the_order_of_their_ids(self):
        assert list(classes()) == sorted(classes())
        assert len(set(labels())) == 1000
        assert labels()[999] == "999_toilet tissue"
