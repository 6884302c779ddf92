"""The style bank that ships: complete, drawn by today's generators, chosen by the numbers beside it."""

from __future__ import annotations

import csv
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from builders.cli.app import main
from builders.recipe_files import load_recipe, recipe_path
from builders.sample import Item, Sample
from builders.shifts.steps import Stylize
from builders.shifts.styles import network
from builders.shifts.styles.bank import BANK, StyleBank
from scripts.calibrate_styles import BAR, CONTRAST, STRENGTHS
from scripts.style_pictures import DRAWINGS, draw_style
from shiftdata.errors import InputError

ACROSS_PROCESSORS = 1e-3  # codes differ in the last digits between processor families


@pytest.fixture(scope="module")
def bank() -> StyleBank:
    return StyleBank.load()


def test_bank_is_complete(bank: StyleBank) -> None:
    assert len(bank.names) == 20
    assert list(bank.names) == sorted(bank.names)
    assert all(re.fullmatch(r"[a-z0-9_]+", name) for name in bank.names)
    assert {codes.shape for codes in bank.codes.values()} == {(40, 100)}


def test_no_two_codes_are_close(bank: StyleBank) -> None:
    flat = np.concatenate(list(bank.codes.values())).astype(np.float64)
    squares = (flat**2).sum(axis=1)
    apart = squares[:, None] + squares[None] - 2 * flat @ flat.T
    np.fill_diagonal(apart, np.inf)
    assert np.sqrt(apart.min()) > 10 * ACROSS_PROCESSORS


def test_shipped_codes_are_those_of_the_generators(bank: StyleBank) -> None:
    for style in bank.names[::3]:
        for index in (0, bank.size - 1):
            again = network.code(draw_style(DRAWINGS[style], index))
            np.testing.assert_allclose(again, bank.code(style, index), rtol=0, atol=ACROSS_PROCESSORS)


def test_shipped_codes_belong_to_the_shipped_network() -> None:
    assert pq.read_schema(BANK).metadata[b"network"].decode() == network.fingerprint()


# --- styles of your own ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def own(tmp_path_factory) -> Path:
    """Two styles of three pictures and one: a photograph's size, a transparent one, a stray file."""
    folder = tmp_path_factory.mktemp("own") / "my_styles"
    draw = np.random.default_rng(0)
    for style, name in (
        ("Van Gogh", "a.jpg"),
        ("Van Gogh", "b.PNG"),
        ("Van Gogh", "c.png"),
        ("Größe", "x.png"),
    ):
        (folder / style).mkdir(parents=True, exist_ok=True)
        pixels = draw.integers(0, 255, (5, 6, 4 if name == "x.png" else 3), dtype=np.uint8)
        Image.fromarray(pixels).resize((90, 70)).save(folder / style / name)
    (folder / "Van Gogh/notes.txt").write_text("not a picture")
    return folder


def painted(step: Stylize) -> dict[str | None, Sample]:
    item = Item(key="k", label="a", origin="a/k", license="MIT", attribution="x")
    picture = draw_style("pebbles", 0).resize((24, 24))
    return {one.nuisance: one for one in step(iter([Sample(item=item, key="k", example=picture)]))}


def test_a_style_of_a_subset_has_the_pictures_of_the_whole_bank(bank: StyleBank) -> None:
    chosen = (bank.names[3], bank.names[0])
    step = Stylize(seed=0, dataset="d", styles=chosen)
    whole, some = painted(Stylize(seed=0, dataset="d")), painted(step)
    assert tuple(some) == step.nuisances == chosen
    for style in chosen:
        assert some[style].key == whole[style].key
        assert some[style].image.tobytes() == whole[style].image.tobytes()
    assert step.fingerprint() != Stylize(seed=0, dataset="d").fingerprint()


def test_a_style_may_have_a_strength_of_its_own(bank: StyleBank) -> None:
    weak, other = bank.names[:2]
    step = Stylize(seed=0, dataset="d", styles=(weak, other), strengths={weak: 0.5})
    whole = replace(step, strengths=None)
    mixed, full, half = (painted(one) for one in (step, whole, replace(whole, strength=0.5)))
    assert mixed[weak].image.tobytes() == half[weak].image.tobytes()
    assert mixed[other].image.tobytes() == full[other].image.tobytes()
    assert [one.params["strength"] for one in mixed.values()] == [0.5, 1]
    assert {one.severity for one in mixed.values()} == set(step.severities) == {1}
    assert replace(step, strength=0.5).strength_of(weak) == 0.25
    assert step.fingerprint() != whole.fingerprint()
    assert replace(step, strengths={weak: 1}).fingerprint() == whole.fingerprint()


def test_every_style_of_a_recipe_is_recognised_by_the_rule(bank: StyleBank) -> None:
    shift = load_recipe("sma_glyphs").shift
    table = recipe_path("sma_glyphs").with_suffix(".styles.tsv").read_text(encoding="utf-8").splitlines()
    rows = list(csv.DictReader(table, delimiter="\t"))
    assert [row["style"] for row in rows] == list(shift.nuisances) == list(bank.names)
    for row in rows:
        assert shift.strength_of(row["style"]) == float(row["strength"])
        assert float(row["strength"]) in STRENGTHS
        assert BAR <= float(row["fidelity"]) <= float(row["high"]), row["style"]
        assert float(row["contrast"]) >= CONTRAST, row["style"]


@pytest.mark.slow
def test_a_folder_of_pictures_makes_styles_and_so_does_its_file_of_codes(own: Path, tmp_path, capsys) -> None:
    assert main(["styles", "encode", str(own), str(tmp_path / "codes.parquet")]) == 0
    assert "Van Gogh: 3 pictures" in capsys.readouterr().out
    shutil.copytree(own, tmp_path / "elsewhere")
    steps = [
        Stylize(seed=0, dataset="d", styles=place)
        for place in (own, tmp_path / "elsewhere", tmp_path / "codes.parquet")
    ]
    assert len({step.fingerprint() for step in steps}) == 1
    made = [painted(step) for step in steps]
    assert [sample.key for sample in made[0].values()] == ["k-gr-e-e54d87", "k-van-gogh"]
    assert made[0]["Van Gogh"].image.tobytes() == made[2]["Van Gogh"].image.tobytes()
    drawn = {
        painted(Stylize(seed=seed, dataset="d", styles=own))["Van Gogh"].params["style_picture"]
        for seed in range(20)
    }
    assert drawn == {0, 1, 2}
    Image.new("RGB", (9, 9)).save(tmp_path / "elsewhere/Van Gogh/a.jpg")
    assert Stylize(seed=0, dataset="d", styles=tmp_path / "elsewhere").fingerprint() != steps[0].fingerprint()


def broken(own: Path, folder: Path, mistake: str) -> object:
    """Styles as a user may give them by mistake."""
    if mistake in ("bare", "unknown", "number"):
        return {"bare": "mosaic", "unknown": ("mistt",), "number": 5}[mistake]
    shutil.copytree(own, folder)
    if mistake == "cut":
        (folder / "Van Gogh/bad.jpg").write_bytes(b"\xff\xd8\xff")
    elif mistake == "flat":
        Image.new("RGB", (9, 9)).save(folder / "x.png")
    elif mistake == "twins":
        shutil.copytree(own / "Van Gogh", folder / "van-gogh")
    else:
        table = pq.read_table(BANK)
        table = table.take([1, 0]) if mistake == "order" else table.replace_schema_metadata({})
        pq.write_table(table, folder / "codes.parquet")
        return folder / "codes.parquet"
    return folder


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (
            "cut",
            r"the style picture .*Van Gogh/bad\.jpg cannot be used: not a readable picture; replace",
        ),
        ("flat", r"x\.png is not in the folder of a style: expected .*/<style>/<picture>"),
        ("twins", "keys cannot keep the styles 'Van Gogh' and 'van-gogh' of .* apart: rename one"),
        ("order", "its rows are not the pictures 0, 1, 2 and so on of each style"),
        ("network", "has codes of another network .* encode the style pictures again"),
        ("bare", r"styles is 'mosaic': write Path\('my_styles'\) for a folder"),
        ("unknown", "unknown style 'mistt'; did you mean 'mist'"),
        ("number", "styles is 5: write Path"),
    ],
)
def test_styles_that_cannot_be_used_are_named_with_what_to_do(own: Path, tmp_path, mistake, message) -> None:
    with pytest.raises(InputError, match=message):
        Stylize(seed=0, dataset="d", styles=broken(own, tmp_path / "styles", mistake)).fingerprint()
