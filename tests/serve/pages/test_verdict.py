"""The verdict of a dataset, from manifests of every kind that a reader has to be warned of, or not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import shiftdata as sd
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.records import Calibration, Measure
from shiftdata.data.format.schema import Roles
from shiftdata.evaluation.duplicates import Cluster, Duplicates, Member
from shiftdata.serve.pages import verdict as module
from shiftdata.serve.pages.rows import Rows
from shiftdata.serve.pages.verdict import (
    balance_answer,
    lead_of,
    leak_answer,
    leaks_of,
    severity_answer,
    shortcut_answer,
    strip_of,
    use_answer,
    verdict,
)

GOLDEN = Path(__file__).parents[2] / "golden" / "tiny_manifest.json"


@pytest.fixture(scope="module")
def manifest() -> Manifest:
    return Manifest.from_json(GOLDEN.read_text())


def rows_of(folder: Path) -> Rows:
    dataset = sd.open_dataset(folder)
    return Rows.of(dataset, dataset.manifest.default_base)


def test_equal_groups_are_balanced_and_a_skewed_training_set_is_named(manifest):
    answer = balance_answer(manifest, np.full((4, 5), 20))
    assert answer.tone == "good"
    assert answer.text.startswith("Yes: each of the 20 groups (label and style) has 20 rows.")
    size = manifest.canonical_splits[0].sets["train"].size
    assert f"gf_k2_mu10 is skewed: {size.smallest} to {size.largest} rows in its 4 groups" in answer.text


@pytest.mark.parametrize(
    ("counts", "tone", "text"),
    [
        ([[10, 12], [10, 11]], "good", "Nearly: the 4 groups (label and style) have 10 to 12 rows"),
        ([[10, 90], [10, 10]], "caution", "No: groups have 10 (bar / blue) to 90 (bar / cyan) rows."),
        ([[10, 0], [10, 10]], "caution", "rows, and 1 of 4 have none"),
        ([[7, 0], [0, 0]], "good", "each of the 1 groups"),
        ([[0, 0], [0, 0]], "open", "No row of mini has a style."),
    ],
)
def test_groups_of_other_sizes_say_so(manifest, counts, tone, text):
    answer = balance_answer(replace(manifest, canonical_splits=()), np.array(counts))
    assert answer.tone == tone
    assert text in answer.text


def test_a_leak_is_named_with_its_split(manifest):
    leaking = leak_answer(manifest, {"gf_k2_mu10": 0, "gf_k4_mu20_s1": 12}, [])
    assert leaking.tone == "caution"
    assert leaking.text.startswith("Yes: ")
    assert "gf_k4_mu20_s1 (12)" in leaking.text
    clean = leak_answer(manifest, {"gf_k2_mu10": 0, "gf_k4_mu20_s1": 0}, [])
    assert clean.tone == "good"
    assert "no original picture is in both training and test data, in any of 2 canonical splits" in clean.text
    assert "Not checked here: b" in leak_answer(manifest, {"gf_k2_mu10": 0}, ["b"]).text
    assert "Not checked here: b, c and 2 more." in leak_answer(manifest, {}, [*"bcde"]).text
    assert leak_answer(manifest, {}, []).tone == "open"
    none = Duplicates(
        dataset="tiny", base="content", content_id="", modality="image", model="none", threshold=0.1,
        compared=160, clusters=(),
    )  # fmt: skip
    measured = leak_answer(manifest, {"gf_k2_mu10": 0}, [], none)
    assert measured.tone == "good"
    assert measured.text.endswith("No near-duplicates among 160 originals.")
    apart = Member(key="b", origin="b", split="test", label="bar", nuisance="red", distance=0.01)
    cluster = Cluster(
        members=(replace(apart, key="a", origin="a", split="train"), apart), distance=0.01, kind="pixels"
    )
    found = leak_answer(manifest, {"gf_k2_mu10": 0}, [], replace(none, clusters=(cluster,)))
    assert found.tone == "caution"
    assert found.text.endswith("1 cluster of near-duplicates lies on both sides of a split.")


def test_equal_pictures_across_splits_are_a_caution(manifest):
    bases = [replace(base, equal_apart=3) for base in manifest.bases[:1]]
    answer = leak_answer(replace(manifest, bases=bases), {"gf_k2_mu10": 0}, [])
    assert answer.tone == "caution"
    assert "3 sets of equal pictures" in answer.text


def test_shortcuts_are_graded_by_what_the_plainest_class_gives_away(manifest):
    shortcuts = manifest.shortcuts
    assert shortcuts is not None

    def of(alone: float, accuracy: float) -> Any:
        traces = [replace(t, alone=alone, accuracy=accuracy, noise=0.02) for t in shortcuts.traces]
        return shortcut_answer(replace(manifest, shortcuts=replace(shortcuts, traces=traces)))

    assert of(0.95, 0.8).tone == "caution"
    assert "80 % of the time (a guess: 25 %)" in of(0.95, 0.8).text
    assert of(0.65, 0.4).text.startswith("Some: of ")
    assert of(0.5, 0.25).text.startswith("None found")
    text = shortcut_answer(replace(manifest, shortcuts=None, roles=Roles(nuisance="x", modality="text")))
    assert (text.text, text.tone) == ("Not measured: only pictures are.", "open")


def test_the_accuracies_of_small_networks_are_a_range(manifest):
    measure = Measure(
        split="gf_k2_mu10", trained="ERM", network="small-cnn", seed=0, mode="scratch", fit=100, set="test",
        rows=24, cells=4, smallest=6, chance=0.5, mean=(0.83, 0.8, 0.9), worst=(0.41, 0.3, 0.5),
        worst_cell="bar / cyan", by_nuisance={}, seconds=1,
    )  # fmt: skip
    lower = replace(measure, network="small-resnet", mean=(0.7, 0.6, 0.8), worst=(0.2, 0.1, 0.3))
    ceiling = replace(measure, trained="ceiling", mean=(1.0, 0.9, 1.0))
    measured = Calibration(
        base="mini", content_id="", steps=1, batch=1, side=32, versions={},
        measures=[ceiling, measure, lower],
    )  # fmt: skip
    text = shortcut_answer(replace(manifest, calibration=measured)).text
    assert "accuracy of 2 small networks (ERM) is 0.70 to 0.83, in the worst group 0.20 to 0.41" in text


@pytest.mark.parametrize(
    ("license_", "tone", "text"),
    [
        ("CC0-1.0", "good", "Also for commercial use."),
        ("CC-BY-4.0", "good", "Also for commercial use; name the authors."),
        ("CC-BY-SA-4.0", "good", "name the authors and pass on what you change under the same licence"),
        ("CC-BY-NC-4.0", "caution", "Not for commercial use (CC-BY-NC-4.0)"),
        ("CC-BY-ND-4.0", "caution", "Changed versions may not be passed on"),
        ("LicenseRef-Mine", "open", "Not known: read the terms of LicenseRef-Mine first."),
    ],
)
def test_a_licence_is_said_in_words(manifest, license_, tone, text):
    answer = use_answer(replace(manifest, license=license_, credits=()))
    assert text in answer.text
    if license_ != "CC-BY-ND-4.0":
        assert answer.tone == tone


def test_rows_that_allow_commercial_use_are_offered(manifest):
    answer = use_answer(replace(manifest, license="CC-BY-NC-4.0 AND CC0-1.0"))
    assert "shiftdata fetch tiny --select use=commercial" in answer.text


def test_severities_are_counted(manifest):
    assert (
        severity_answer(replace(manifest, severities=(0.0, 0.5, 2.0))).text
        == "3 steps from 0 (untouched) to 2."
    )
    assert severity_answer(replace(manifest, severities=(1.0, 2.0))).text == "2 steps from 1 to 2."
    assert severity_answer(manifest).text.startswith("One strength")


def test_the_lead_says_what_is_predicted_and_what_shifts(manifest):
    assert lead_of(manifest) == (
        f"{manifest.rows:,} pictures. Predict the label (4: bar, disc, ring, wedge); "
        "the style shifts (5: blue, cyan, green, red, yellow)."
    )


def test_a_strip_shows_one_original(built):
    rows = rows_of(built / "shift" / "tiny")
    strip = strip_of(rows, {})
    at = [rows.row_of(tile["key"]) for tile in strip["tiles"]]
    assert len(set(rows.metadata.origin[at].tolist())) == 1
    assert [tile["caption"] for tile in strip["tiles"]] == list(rows.metadata.nuisances)
    along = rows_of(built / "shift" / "tiny_continuous")
    tiles = strip_of(along, {})["tiles"]
    assert [float(tile["caption"]) for tile in tiles] == along.severities
    linked = [tile["key"] for tile in strip_of(rows, rows.sample(1))["tiles"] if tile["key"]]
    assert set(linked) <= set(rows.metadata.keys(np.concatenate([*rows.sample(1).values()])).to_pylist())


def test_untouched_rows_alone_have_no_strip(built):
    dataset = sd.open_dataset(built / "shift" / "tiny")
    assert strip_of(Rows.of(dataset, "content"), {})["tiles"] == []


def test_origins_in_several_splits_are_counted(monkeypatch):
    known = SimpleNamespace(
        columns={"split": np.array([0, 0, 1, 2, 2])},
        origin=np.array([0, 1, 1, 2, 1]),
        origin_names=["a", "b", "c"],
    )
    monkeypatch.setattr(module.Rows, "of", lambda dataset, base: SimpleNamespace(metadata=known))
    assert module._shared(SimpleNamespace(), "mini") == 1


def test_splits_of_a_base_that_shares_origins_are_made_within_limits(built, monkeypatch):
    assert set(leaks_of(rows_of(built / "shift" / "tiny"))[0].values()) == {0}
    monkeypatch.setattr(module, "_shared", lambda dataset, base: 5)
    leaks, unchecked = leaks_of(rows_of(built / "shift" / "tiny"))
    assert (leaks["the splits of mini"], leaks["gf_k2_mu10"], unchecked) == (5, 0, [])
    assert leaks_of(rows_of(built / "shift" / "tiny"), most=1)[1] == ["gf_k4_mu20_s1"]
    monkeypatch.setattr(module, "MOST_CHECKED", 0)
    assert leaks_of(rows_of(built / "shift" / "tiny"))[1] == ["gf_k2_mu10", "gf_k4_mu20_s1"]


@pytest.mark.parametrize("name", ["tiny", "tiny_continuous", "tiny_text", "tiny_table"])
def test_every_kind_of_dataset_has_five_answers(built, name):
    answers = verdict(rows_of(built / "shift" / name))
    assert [answer.name for answer in answers] == ["balance", "leaks", "shortcuts", "severity", "use"]
    assert all(answer.text.endswith(".") for answer in answers)
