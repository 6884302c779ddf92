"""Camelyon17, FMoW and CivilComments from their files: what rows say, what is left out, broken trees."""

from __future__ import annotations

import csv
import io
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from builders.sample import Item
from tests.builders.raw_albums import album_of
from tests.builders.replicas import wilds

MAKE = {"camelyon17": wilds.camelyon17, "fmow": wilds.fmow, "civilcomments": wilds.civilcomments}
FIRST = (
    "airport, airport_hangar, airport_terminal, amusement_park, aquaculture, archaeological_site, barn, "
    "border_checkpoint"
)
CIVIL = f"{wilds.CIVIL}/all_data_with_identities.csv"


@pytest.fixture(scope="module")
def raw(tmp_path_factory) -> dict[str, Path]:
    folders = {name: tmp_path_factory.mktemp(name) for name in MAKE}
    for name, make in MAKE.items():
        make(folders[name])
    return folders


def table_of(file: Path) -> list[dict[str, str]]:
    """The rows of a CSV file, by Python's reader."""
    return list(csv.DictReader(io.StringIO(file.read_text(encoding="utf-8-sig"), newline="")))


def places(items: tuple[Item, ...], name: str) -> dict[int, str]:
    """Which file has each place of a list."""
    return {
        item.source["lists"][name]: str(item.source["file"]) for item in items if name in item.source["lists"]
    }


def test_all_patches_of_a_slide_are_one_origin_whatever_they_show(raw):
    items, shown = album_of("camelyon17", raw["camelyon17"]).items(), defaultdict(set)
    for item in items:
        shown[item.origin].add((item.label, item.nuisance))
    assert {origin: {label for label, _ in both} for origin, both in shown.items()} == {
        f"slide_{slide}": {"normal", "tumor"} for slide in range(50)
    }
    assert all(len({center for _, center in both}) == 1 for both in shown.values())


def test_patients_stay_texts_and_each_row_names_its_own_patch(raw):
    rows = table_of(raw["camelyon17"] / wilds.CAMELYON / "metadata.csv")
    for item in album_of("camelyon17", raw["camelyon17"]).items():
        row = rows[item.source["lists"]["files"]]
        assert item.source["file"] == wilds.patch(row["patient"], row["node"], row["x_coord"], row["y_coord"])
        assert (item.source["patient"], item.source["slide"]) == (row["patient"], row["slide"])
        assert item.label == ("tumor" if row["tumor"] == "1" else "normal")
        assert item.nuisance == f"center_{row['center']}"


def test_the_lists_of_camelyon_are_by_center_and_else_by_split(raw):
    rows = table_of(raw["camelyon17"] / wilds.CAMELYON / "metadata.csv")
    items = album_of("camelyon17", raw["camelyon17"]).items()
    for item in items:
        row = rows[item.source["lists"]["files"]]
        wanted = {"1": "val", "2": "test"}.get(row["center"]) or ("train", "id_val")[int(row["split"])]
        assert set(item.source["lists"]) == {"files", wanted}
    for name in ("train", "id_val", "val", "test"):
        at = {
            place: item.source["lists"]["files"]
            for item in items
            for of, place in item.source["lists"].items()
            if of == name
        }
        assert [at[place] for place in sorted(at)] == sorted(at.values())


def test_what_camelyon_leaves_out_is_named(raw):
    metadata = f"{wilds.CAMELYON}/metadata.csv"
    assert album_of("camelyon17", raw["camelyon17"]).left_out == {
        "patch_patient_200_node_1_x_0_y_0.png": "metadata.csv lists it, and it is not there",
        f"{metadata}, row 201 (patch_patient_004_node_0_x_3328_y_21792.png)": (
            "there already, in an earlier row"
        ),
        f"{metadata}, row 202 (patch_patient_201_node_1_x_0_y_0.png)": (
            "its tumor is '2', which is none of normal, tumor"
        ),
        f"{metadata}, row 203 (patch_patient_201_node_1_x_1_y_0.png)": (
            "its center is '7', which is none of center_0, center_1, center_2, center_3, center_4"
        ),
        f"{metadata}, row 204 (patch_patient_201_node_1_x_2_y_0.png)": "it is in none of the lists",
        wilds.patch("300", 1, 0, 0): "no row of metadata.csv names it",
    }


def test_regions_and_years_of_fmow(raw):
    said, rows = defaultdict(set), table_of(raw["fmow"] / wilds.FMOW / "rgb_metadata.csv")
    for item in album_of("fmow", raw["fmow"]).items():
        row = rows[int(str(item.source["file"]).rpartition("_")[2].removesuffix(".png"))]
        eve = row["timestamp"].startswith("2012-12-31")
        assert item.source["year"] == (2013 if eve else int(row["timestamp"][:4]))
        said[item.source["country"]].add(item.source["region"])
        said[item.nuisance].add(item.source["year"])
    assert said["FRA"] == {"Europe"}
    assert said["ATA"] == said["XKX"] == said[""] == {"Other"}
    assert said["2002-2012"] == {2002, 2012}
    assert said["2013-2015"] == {2013, 2015}
    assert said["2016-2017"] == {2016, 2018}


def test_the_lists_of_fmow_are_by_split_and_period(raw):
    rows = table_of(raw["fmow"] / wilds.FMOW / "rgb_metadata.csv")
    items = album_of("fmow", raw["fmow"]).items()
    lists = {
        "2002-2012": {"train": {"files", "train"}, "val": {"files", "id_val"}, "test": {"files", "id_test"}},
        "2013-2015": {"train": {"files"}, "val": {"files", "val"}, "test": set()},
        "2016-2017": {"train": {"files"}, "val": set(), "test": {"files", "test"}},
    }
    for item in items:
        row = rows[int(str(item.source["file"]).rpartition("_")[2].removesuffix(".png"))]
        assert set(item.source.get("lists", {})) == lists[item.nuisance][row["split"]]
    listed = tuple(item for item in items if "lists" in item.source)
    order = [file for _, file in sorted(places(listed, "files").items())]
    for before, after in (("train", "id_val"), ("id_val", "id_test")):
        first, second = places(listed, before), places(listed, after)
        assert order.index(first[max(first)]) < order.index(second[0])
        assert [file for file in order if file in first.values()] == [first[at] for at in sorted(first)]


def test_what_fmow_leaves_out_is_named(raw):
    why = Counter(album_of("fmow", raw["fmow"]).left_out.values())
    left_out = why.pop("left out: sequestered, or of no split of WILDS")
    assert left_out == sum(wilds.FMOW_YEARS.values()) * len(wilds.CATEGORIES) + 1
    assert why == {
        f"its category is 'harbor', which is none of {FIRST}, ..": 1,
        "its timestamp is 'soon', which is none of 2002-2012, 2013-2015, 2016-2017": 1,
        "rgb_metadata.csv lists it, and it is not there": 1,
        "no row of rgb_metadata.csv names it": 1,
    }


def test_comments_are_their_texts_to_the_letter(raw):
    album, rows = album_of("civilcomments", raw["civilcomments"]), table_of(raw["civilcomments"] / CIVIL)
    texts = {item.source["row"]: album.load(item) for item in album.items()}
    assert texts == {part: rows[part]["comment_text"] for part in texts}
    assert len(texts) == len(rows) - 4
    assert any("\n\n" in str(text) and '"' in str(text) for text in texts.values())


def test_half_toxic_is_toxic_and_what_has_no_number_is_not_named(raw):
    rows = table_of(raw["civilcomments"] / CIVIL)
    for item in album_of("civilcomments", raw["civilcomments"]).items():
        row = rows[item.source["row"]]
        assert item.label == ("toxic" if float(row["toxicity"]) >= 0.5 else "non-toxic")
        assert item.source["identities"] == [one for one in wilds.IDENTITIES if row[one] == "0.5"]
        assert item.nuisance == row["split"]
    assert {"0.5", "0.4999"} <= {row["toxicity"] for row in rows}


def test_equal_comments_are_one_origin_over_labels_and_splits(raw):
    album = album_of("civilcomments", raw["civilcomments"])
    of_text = defaultdict(list)
    for item in album.items():
        of_text[album.load(item)].append(item)
    same = of_text["The same, everywhere."]
    assert {item.nuisance for item in same} == {"train", "val", "test"}
    assert {item.label for item in same} == {"toxic", "non-toxic"}
    assert len({item.origin for item in same}) == 1
    assert len({item.origin for item in album.items()}) == len(of_text)


def test_what_civilcomments_leaves_out_is_named(raw):
    assert album_of("civilcomments", raw["civilcomments"]).left_out == {
        f"{CIVIL}, row 243": "it has no text",
        f"{CIVIL}, row 244": "it has no text",
        f"{CIVIL}, row 245": "its toxicity is '', which is none of non-toxic, toxic",
        f"{CIVIL}, row 246": "its split is 'holdout', which is none of train, val, test",
    }
