"""The style bank that ships: complete, drawn by today's generators, chosen by the numbers beside it."""

from __future__ import annotations

import csv
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from builders.shifts.styles import network
from builders.shifts.styles.bank import BANK, StyleBank
from scripts.style_pictures import STYLES, description, draw_style
from shiftdata.errors import InputError, NotFoundError

ROOT = Path(__file__).resolve().parents[1]
ACROSS_PROCESSORS = 1e-3  # codes differ in the last digits between processor families


@pytest.fixture(scope="module")
def bank() -> StyleBank:
    return StyleBank.load()


@pytest.fixture(scope="module")
def candidates() -> dict[str, dict[str, str]]:
    with BANK.with_name("candidates.tsv").open(encoding="utf-8", newline="") as file:
        return {row["style"]: row for row in csv.DictReader(file, delimiter="\t")}


def test_bank_is_complete(bank: StyleBank) -> None:
    assert len(bank.names) == 20
    assert list(bank.names) == sorted(bank.names)
    assert all(re.fullmatch(r"[a-z0-9_]+", name) for name in bank.names)
    assert bank.size == 40
    assert bank.codes.shape == (20, 40, 100)
    assert np.isfinite(bank.codes).all()


def test_no_two_codes_are_close(bank: StyleBank) -> None:
    flat = bank.codes.reshape(-1, 100).astype(np.float64)
    squares = (flat**2).sum(axis=1)
    apart = squares[:, None] + squares[None] - 2 * flat @ flat.T
    np.fill_diagonal(apart, np.inf)
    assert np.sqrt(apart.min()) > 10 * ACROSS_PROCESSORS


def test_every_style_varies_less_than_the_styles_differ(bank: StyleBank) -> None:
    centres = bank.codes.mean(axis=1)
    inside = np.linalg.norm(bank.codes - centres[:, None], axis=2).mean(axis=1)
    assert (inside > 0.1 * np.linalg.norm(centres - centres.mean(axis=0), axis=1).mean()).all()
    between = np.linalg.norm(centres[:, None] - centres[None], axis=2)
    np.fill_diagonal(between, np.inf)
    assert np.median(between.min(axis=1)) > np.median(inside)


def test_shipped_codes_are_those_of_the_generators(bank: StyleBank) -> None:
    for style in bank.names[::3]:
        for index in (0, bank.size - 1):
            again = network.code(draw_style(style, index))
            np.testing.assert_allclose(again, bank.code(style, index), rtol=0, atol=ACROSS_PROCESSORS)


def test_shipped_codes_belong_to_the_shipped_network() -> None:
    assert pq.read_schema(BANK).metadata[b"network"].decode() == network.fingerprint()


def test_changing_a_code_does_not_change_the_bank(bank: StyleBank) -> None:
    before = bank.fingerprint()
    bank.code(bank.names[0], 0)[:] = 0
    assert bank.fingerprint() == before


def test_provenance_is_enough_to_draw_the_picture_again(bank: StyleBank) -> None:
    style = bank.names[3]
    record = pq.read_table(BANK).drop_columns(["code"]).to_pylist()[3 * bank.size + 7]
    assert record == {
        "style": style,
        "index": 7,
        "generator": description(style),
        "license": "Apache-2.0",
        "seed": f"style-bank/{style}/7",
    }


def test_bank_is_read_once_and_pickles(bank: StyleBank) -> None:
    assert StyleBank.load() is bank
    copy = pickle.loads(pickle.dumps(bank))
    assert copy.fingerprint() == bank.fingerprint()


def test_unknown_style_names_the_nearest(bank: StyleBank) -> None:
    almost = bank.names[0] + "x"
    with pytest.raises(NotFoundError, match=rf"unknown style '{almost}'; did you mean '{bank.names[0]}'"):
        bank.code(almost, 0)
    with pytest.raises(NotFoundError, match="unknown style 'wavs'; did you mean 'waves'"):
        draw_style("wavs", 0)


@pytest.mark.parametrize("index", [-1, 40])
def test_index_outside_says_what_is_allowed(bank: StyleBank, index: int) -> None:
    with pytest.raises(InputError, match=f"style pictures 0 to 39, got {index}"):
        bank.code(bank.names[0], index)


@pytest.mark.parametrize("style", STYLES["style-bank"])
def test_generator_draws_a_varied_picture_of_the_right_size(style: str) -> None:
    first, second = draw_style(style, 0), draw_style(style, 1)
    assert (first.size, first.mode) == ((256, 256), "RGB")
    assert first.tobytes() != second.tobytes()
    assert description(style).endswith(".")


def test_pictures_do_not_depend_on_what_was_drawn_before() -> None:
    styles = list(STYLES["style-bank"])[::5]
    forth = {style: draw_style(style, 5).tobytes() for style in styles}
    np.random.default_rng(1).random(3)
    Image.new("RGB", (4, 4))
    back = {style: draw_style(style, 5).tobytes() for style in reversed(styles)}
    assert forth == back


def test_pictures_are_the_same_in_another_process() -> None:
    script = (
        "import hashlib; from scripts.style_pictures import draw_style;"
        "print(hashlib.sha256(draw_style('leaves', 3).tobytes()).hexdigest())"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", script],
            cwd=ROOT,
            env={"PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(runs) == 1


def test_candidates_explain_the_bank(bank: StyleBank, candidates: dict[str, dict[str, str]]) -> None:
    assert set(candidates) == set(STYLES["style-bank"])
    assert len(candidates) >= 25
    assert sorted(style for style, row in candidates.items() if row["kept"] == "yes") == list(bank.names)


def test_every_candidate_is_kept_by_the_rule(candidates: dict[str, dict[str, str]]) -> None:
    lowest = min(float(row["separability"]) for row in candidates.values() if row["kept"] == "yes")
    for style, row in candidates.items():
        fidelity = float(row["fidelity"])
        expected = float(row["stylized_accuracy"]) / float(row["original_accuracy"])
        assert fidelity == pytest.approx(expected, abs=0.003), style
        if row["kept"] == "yes":
            assert fidelity >= 0.6, style
            assert not row["reason"], style
        else:
            assert row["kept"] == "no", style
            assert row["reason"], style
            assert fidelity < 0.6 or float(row["separability"]) <= lowest, style
            assert ("fidelity" in row["reason"]) == (fidelity < 0.6), style


def test_kept_styles_can_be_told_apart(candidates: dict[str, dict[str, str]]) -> None:
    recalls = [float(row["separability_among_kept"]) for row in candidates.values() if row["kept"] == "yes"]
    assert np.mean(recalls) >= 0.8
