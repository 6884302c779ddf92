"""Declared tables: what rows say, and the forms in which people have their files."""

from __future__ import annotations

import gzip
import re
import shutil
import tarfile
import zipfile
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from shiftdata.errors import InputError
from tests.builders.raw_albums import album_of
from tests.builders.replicas import acs, mimic, tables, wilds

MAKE: dict[str, Callable[[Path], object]] = {
    "camelyon17": wilds.camelyon17,
    "civilcomments": wilds.civilcomments,
    "fmow": wilds.fmow,
    "mimic_readmission": mimic.make,
    "retiring_adults": lambda root: acs.make(root, each=4),
    **tables.REPLICAS,
}


def packed(root: Path) -> None:
    """One archive, as downloaded."""
    with tarfile.open(root.parent / "all.tar.gz", "w:gz") as archive:
        for path in sorted(root.iterdir()):
            archive.add(path, path.name)
    shutil.rmtree(root)
    root.mkdir()
    (root.parent / "all.tar.gz").rename(root / "all.tar.gz")


def flat(root: Path) -> None:
    """All files in one folder, without the authors' folders."""
    for path in sorted(path for path in root.rglob("*") if path.is_file() and path.name[0].isalpha()):
        path.rename(root / path.name)


def deeper(root: Path) -> None:
    """Below folders of one's own, with the authors' archives and notes next to them."""
    shutil.move(root, root.parent / "inner")
    (root / "data").mkdir(parents=True)
    shutil.move(root.parent / "inner", root / "data/raw")
    (root / "data/README.md").write_text("what we have")


def compressed(root: Path) -> None:
    """Each table as a .gz file."""
    for path in [path for path in root.rglob("*") if path.suffix in (".csv", ".data", ".test", ".review")]:
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        if path.name not in ("adult.test", "admissions.csv"):  # an unpacked table may lie next to its .gz
            path.unlink()


def among_others(root: Path) -> None:
    """WILDS' folder of all datasets, with one of the same table and the same names of pictures."""
    for name, table in (
        ("camelyon17_unlabeled_v1.0", "metadata.csv"),
        ("fmow_unlabeled_v1.0", "rgb_metadata.csv"),
    ):
        (root / name).mkdir()
        (root / name / table).write_text("patient,node\n1,1\n")
        (root / name / "rgb_img_0.png").write_bytes(b"another picture")


def of_another_system(root: Path) -> None:
    """Lines that end as Windows ends them, and no end after the last."""
    for path in [path for path in root.rglob("*") if path.suffix in (".data", ".test", ".review")]:
        path.write_bytes(path.read_bytes().rstrip(b"\n").replace(b"\n", b"\r\n"))


def zips_of_states(root: Path) -> None:
    """The archives of the Census, each in the folder of its year; folktables unpacks them there."""
    shutil.rmtree(root)
    acs.make(root, each=4, packed=True)


FORMS = {
    packed: ["camelyon17", "heart", "retiring_adults"],
    deeper: ["civilcomments", "fmow", "sentiment"],
    compressed: ["adult", "civilcomments", "mimic_readmission", "sentiment"],
    flat: ["camelyon17", "compas", "fmow", "mimic_readmission"],
    among_others: ["camelyon17", "fmow", "civilcomments"],
    of_another_system: ["adult", "heart", "sentiment"],
    zips_of_states: ["retiring_adults"],
}
PAIRS = [pytest.param(name, form, id=f"{name}-{form.__name__}") for form in FORMS for name in FORMS[form]]


@pytest.fixture(scope="module")
def raw(tmp_path_factory) -> Callable[[str], Path]:
    roots = dict[str, Path]()

    def of(name: str) -> Path:
        if name not in roots:
            roots[name] = tmp_path_factory.mktemp(name) / "raw"
            MAKE[name](roots[name])
        return roots[name]

    return of


@pytest.mark.parametrize(("name", "form"), PAIRS)
def test_a_form_that_people_have_gives_the_same_rows(raw, tmp_path, name, form):
    root = Path(shutil.copytree(raw(name), tmp_path / "raw"))
    form(root)
    ours, theirs = (album_of(name, place) for place in (raw(name), root))
    assert [(i.key, i.label, i.nuisance, i.origin) for i in theirs.items()] == [
        (i.key, i.label, i.nuisance, i.origin) for i in ours.items()
    ]
    first = theirs.items()[:3]
    assert [str(theirs.load(item)) for item in first if "row" in item.source] == [
        str(ours.load(item)) for item in ours.items()[:3] if "row" in item.source
    ]


LACKS = [
    ("camelyon17", "metadata.csv", "no metadata.csv, which says what the patches show: put it there"),
    ("fmow", "rgb_metadata.csv", "no rgb_metadata.csv, which says what pictures show, and when"),
    ("fmow", "country_code_mapping.csv", "no country_code_mapping.csv, which says the region of each"),
    ("civilcomments", "all_data_with_identities.csv", "no all_data_with_identities.csv, which says all"),
    ("mimic_readmission", "admissions.csv", "no admissions.csv, which says patients, stays or their codes"),
    ("adult", "adult.test", "no adult.test, which says the persons of one of the authors' two parts"),
    ("compas", "compas-scores-two-years.csv", "no compas-scores-two-years.csv, which says the defendants"),
    ("sentiment", "positive.review", "no books/positive.review, dvd/positive.review, electronics/"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "file", "said"), LACKS, ids=[f"{name}-{file}" for name, file, _ in LACKS])
def test_the_file_that_lacks_is_named(raw, tmp_path, name, file, said):
    root = Path(shutil.copytree(raw(name), tmp_path / "raw"))
    for path in list(root.rglob(file)):
        path.unlink()
    with pytest.raises(InputError, match=re.escape(said)):
        album_of(name, root).items()


def test_a_hospital_or_state_that_lacks_is_left_out_and_named(raw, tmp_path):
    for name, lacks, domain in (
        ("heart", "processed.va.data", "va_long_beach"),
        ("retiring_adults", "2018/1-Year/psam_p72.csv", "pr_2018"),
    ):
        root = Path(shutil.copytree(raw(name), tmp_path / name))
        (root / lacks).unlink()
        album = album_of(name, root)
        assert album.left_out[lacks].startswith("missing: it says the p")
        assert domain not in {item.nuisance for item in album.items()}


def test_two_different_files_of_one_name_are_not_chosen_from(raw, tmp_path):
    root = Path(shutil.copytree(raw("adult"), tmp_path / "raw"))
    (root / "old").mkdir()
    (root / "old/adult.data").write_text("39, State-gov\n")
    with pytest.raises(InputError, match=r"has adult\.data, old/adult\.data: give the folder of one"):
        album_of("adult", root).items()


def test_another_coding_of_a_table_is_refused(raw, tmp_path):
    """Kaggle's heart.csv counts kinds of pain from 0, and has other thal."""
    root = Path(shutil.copytree(raw("heart"), tmp_path / "raw"))
    rows = "".join(f"63,1,{number % 4},145,233,1,0,150,0,2.3,0,0,1,1\n" for number in range(24))
    (root / "processed.cleveland.data").write_text(f"\ufeff{tables.MEASURES}\n{rows}")
    with pytest.raises(InputError, match=r"24 of 24 rows of processed\.cleveland\.data .* another coding"):
        album_of("heart", root).items()


@pytest.mark.parametrize("form", ["NaN", "header"])
def test_hearts_with_nan_or_a_header_are_the_same(raw, tmp_path, form):
    root = tmp_path / "raw"
    tables.heart(root, unknown="NaN" if form == "NaN" else "?")
    for path in root.glob("processed.*") if form == "header" else ():
        path.write_text(f"\ufeff{tables.MEASURES}\n{path.read_text()}")
    ours, theirs = album_of("heart", raw("heart")), album_of("heart", root)
    assert ours.fingerprint() == theirs.fingerprint()
    rows = [theirs.load(item) for item in theirs.items() if item.nuisance == "cleveland"]
    assert {type(row["age"]) for row in rows} == {float}
    assert {row["thal"] for row in rows} == {None, "3", "6"}
    assert {row["ca"] for row in rows} == {None}


def test_persons_of_adult_have_lists_groups_and_no_full_stop(raw):
    items = album_of("adult", raw("adult")).items()
    assert Counter(next(name for name in item.source["lists"] if name != "files") for item in items) == {
        "train": 120,
        "test": 120,
    }
    assert {item.label for item in items} == {"at_most_50000", "above_50000"}
    places = sorted(item.source["lists"]["files"] for item in items)
    assert places == list(range(240))


def test_the_filter_of_propublica_counts_whom_it_leaves_out(raw):
    album, file = album_of("compas", raw("compas")), "compas-scores-two-years.csv"
    assert album.left_out == {
        f"{file}, days_b_screening_arrest from -30 to 30: 2 rows": "left out by a filter",
        f"{file}, is_recid != -1: 1 rows": "left out by a filter",
        f"{file}, c_charge_degree != O: 1 rows": "left out by a filter",
        f"{file}, score_text != N/A: 1 rows": "left out by a filter",
    }
    assert not [item for item in album.items() if "Name" in str(item)]


def test_reviews_of_a_reviewer_are_one_origin_over_products_and_ratings(raw):
    album, of = album_of("sentiment", raw("sentiment")), defaultdict(set)
    for item in album.items():
        of[item.origin].add((item.label, item.nuisance))
    shared = {origin: both for origin, both in of.items() if len(both) > 1}
    assert sorted(shared) == ["a-reader-0", "a-reader-2", "a-reader-3", "a-reader-4"]
    assert all(len(both) == 8 for both in shared.values())
    assert any("&" in str(album.load(item)) and "\n" in str(album.load(item)) for item in album.items())


def test_a_zip_of_uci_has_other_files_too(raw, tmp_path):
    with zipfile.ZipFile(tmp_path / "heart+disease.zip", "w") as archive:
        for path in raw("heart").iterdir():
            archive.write(path, path.name)
        for name in ("Index", "cleveland.data", "new.data", "heart-disease.names", "costs/Index"):
            archive.writestr(name, "-9 1 2\n")
    assert album_of("heart", tmp_path).fingerprint() == album_of("heart", raw("heart")).fingerprint()
