"""Continuous data is filtered as its rules say, the same on every run, and what goes is counted and named."""

from __future__ import annotations

import hashlib
import json
import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from scipy import stats
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from builders import filters as f
from builders.filters.scorers import linear_classifier
from builders.filters.scoring import asked
from builders.make.build import build
from builders.make.check import check
from builders.recipe_files import load_recipe
from scripts.calibrate_filter import calibrate
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.schema import SPLITS
from shiftdata.errors import InputError, NotFoundError
from tests.contracts.kinds import prepare
from tests.paths import ROOT

STEPS = (0.0, 0.5, 1.0, 2.5)

#: Lines put before the RECIPE of the continuous kind: how much a picture varies.
SCORER = """
import numpy as np
from builders.filters import *

@dataclass(frozen=True)
class Ink:
    code_version: ClassVar[int] = 1
    name: str = "ink"

    def fingerprint(self):
        return "ink-1"

    def __call__(self, views):
        with (Path(__file__).parent / "calls.txt").open("a") as log:
            log.write(f"{len(views)}\\n")
        pixels = np.stack([np.asarray(view.picture, float) for view in views])
        return pixels.std(axis=(1, 2, 3))

"""
RULES = """filters=Filters(
        base=Threshold(scorer=Ink(), least=35),
        easy=Threshold(scorer=Ink(), least=50),
        keep=AtLeast(m=1, of=(Threshold(scorer=Ink(), least=24), Threshold(scorer=ToStart(), most=0.06))),
        slider=Slider(scorer=ToStart()),
    )"""


def write_recipe(folder: Path, rules: str = RULES, **changes: str) -> Path:
    """The continuous kind with filters, and some of its lines changed."""
    path = prepare("continuous", folder)
    text = path.read_text().replace(
        "@dataclass(frozen=True)\nclass FadeAndBlur", f"{SCORER}\n@dataclass(frozen=True)\nclass FadeAndBlur"
    )
    text = text.replace('default_base="extended",', f'default_base="extended",\n    {rules},')
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    return path


@pytest.fixture(scope="module")
def recipe_file(tmp_path_factory) -> Path:
    return write_recipe(tmp_path_factory.mktemp("recipe"))


@pytest.fixture(scope="module")
def folder(recipe_file, tmp_path_factory) -> Path:
    return build(str(recipe_file), tmp_path_factory.mktemp("out"), workers=1, quiet=True)


@pytest.fixture(scope="module")
def judged(folder) -> pa.Table:
    return f.judged_rows(folder, "extended")


def hashes(folder: Path) -> dict[str, str]:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def calls(recipe_file: Path) -> int:
    log = recipe_file.parent / "calls.txt"
    return len(log.read_text().splitlines()) if log.exists() else 0


# --- a filtered build ---------------------------------------------------------------------------------


def test_a_filtered_dataset_holds_the_kept_trajectories_and_counts_the_others(folder, recipe_file):
    manifest = Manifest.read(folder)
    for base in ("mini", "extended"):
        rows = f.judged_rows(folder, base)
        published = [pq.read_table(folder / f"metadata/{base}/{split}.parquet") for split in SPLITS]
        keys = {key for table in published for key in table["key"].to_pylist()}
        kept = rows.filter(pc.field("kept"))
        assert keys == set(kept["key"].to_pylist())
        assert 0 < len(keys) < len(rows)
        assert set(pc.value_counts(kept["trajectory"]).field("counts").to_pylist()) == {len(STEPS)}
        assert sum(manifest.base(base).dropped.values()) == len(rows) - len(keys)
    assert manifest.base("content").dropped == {}
    assert {reason.split(" (")[0] for reason in manifest.base("extended").dropped} == {
        "samples of trajectories whose severity 0 is without ink at least 35",
        "samples without 1 of 2",
        "samples of trajectories that fail at another severity",
    }
    assert check(folder, load_recipe(str(recipe_file))) == []
    assert "![Samples left after each filter" in (folder / "README.md").read_text()


@pytest.mark.slow
def test_killed_between_scoring_and_packing_it_ends_in_the_same_bytes_and_prints_its_stages(folder, tmp_path):
    recipe = write_recipe(tmp_path / "r")
    work = tmp_path / ".work/tiny_continuous"
    command = [sys.executable, "-m", "builders", "build", str(recipe), "--out", str(tmp_path), "--quiet"]
    for wanted in ("spool-*/scores-*/*/*.arrow", "packing/filters"):
        with subprocess.Popen(command, cwd=ROOT) as process:
            while process.poll() is None and not any(work.glob(wanted)):
                time.sleep(0.01)
            os.kill(process.pid, signal.SIGKILL)
        assert process.returncode == -signal.SIGKILL
        assert not (tmp_path / "shift").exists()
    scored = calls(recipe)
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    assert calls(recipe) == scored  # all of it was scored before the second kill
    assert hashes(tmp_path / "shift/tiny_continuous") == hashes(folder)
    assert str(f.Stages.of(f.judged_rows(folder, "mini"))) in done.stdout
    assert "to-start: rank correlation with severity 1.0000 in 160 trajectories" in done.stdout


@pytest.mark.slow
def test_other_thresholds_score_nothing_again_and_are_another_recipe(folder, tmp_path):
    recipe = write_recipe(tmp_path / "r")
    build(str(recipe), tmp_path, workers=1, quiet=True, keep_spool=True)
    before, first = calls(recipe), load_recipe(str(recipe))
    recipe.write_text(recipe.read_text().replace("least=24", "least=28"))
    assert load_recipe(str(recipe)).recipe_id() != first.recipe_id()
    again = build(str(recipe), tmp_path, workers=1, quiet=True, replace=True, keep_spool=True)
    assert calls(recipe) == before
    fewer = [
        sum(split.rows for split in Manifest.read(at).base("extended").splits.values())
        for at in (again, folder)
    ]
    assert fewer[0] < fewer[1]
    recipe.write_text(recipe.read_text().replace("ink-1", "ink-2"))
    build(str(recipe), tmp_path, workers=1, quiet=True, replace=True)
    assert calls(recipe) == 2 * before


# --- what is wrong is said ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("least=35", "least=300", r"leave nothing; loosen a bound:\nseverity .*kept\n0 +80 +0 +0 +0 +0\n"),
        (
            "return pixels.std",
            "return [np.nan] * len(views) if views[0].label == 'disc' else pixels.std",
            "the scorer 'ink' gave nan for 'disc_disc[0-9]+-blur-000' and 63 other samples",
        ),
        ("(0.0, 0.5, 1.0, 2.5)", "(0.5, 1.0, 2.5)", "filters are for pictures in severities from 0 on"),
        ("least=50", "least=50, most=9", "the threshold of ink is least=50, most=9: give one, or both"),
        ("m=1, of", "m=3, of", "at least 3 of 2 rules"),
        ('name: str = "ink"', 'name: str = "to-start"', "two scorers are named 'to-start'"),
    ],
)
def test_what_cannot_be_filtered_is_refused(tmp_path, old, new, message):
    recipe = write_recipe(tmp_path / "r", **{old: new})
    with pytest.raises(InputError, match=message):
        build(str(recipe), tmp_path, bases=["mini"], workers=1, quiet=True)
    assert not (tmp_path / "shift").exists()


def test_filters_that_say_nothing_are_refused():
    with pytest.raises(InputError, match="filters need a scorer"):
        f.Filters()
    with pytest.raises(InputError, match="give a rule to `keep` too"):
        f.Filters(easy=least("a", 1))
    with pytest.raises(NotFoundError, match=r"unknown scorer 'b'\. Known: a\."):
        f.judge(f.Filters(base=least("b", 1)), table(a=np.zeros((1, 2))), (0.0, 1.0))


# --- rules --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Named:
    """A scorer by name alone, for rows that have their scores."""

    name: str

    def fingerprint(self) -> str:
        return self.name

    def __call__(self, views):
        raise NotImplementedError


def least(name: str, bound: float) -> f.Threshold:
    return f.Threshold(scorer=Named(name), least=bound)


def table(shifts=None, origins=None, **scores: np.ndarray) -> pa.Table:
    """Scored rows from matrices with a row a trajectory and a column a severity."""
    count, steps = next(iter(scores.values())).shape
    each = [f"t{number:04d}" for number in range(count)]
    columns = {
        "key": [f"{name}-{step}" for name in each for step in range(steps)],
        "trajectory": np.repeat(each, steps),
        "nuisance": np.repeat(shifts or ["snow"] * count, steps),
        "origin": np.repeat(origins or each, steps),
        "severity": np.tile(np.arange(steps) / 2, count),
    }
    return pa.table(columns | {f"score_{name}": matrix.ravel() for name, matrix in scores.items()})


def verdict(judged: pa.Table, name: str, steps: int) -> list[list[bool]]:
    return judged[name].to_numpy().reshape(-1, steps).tolist()


@given(
    st.integers(1, 6).flatmap(
        lambda count: st.lists(
            st.lists(st.tuples(*[st.integers(0, 3)] * 3), min_size=3, max_size=3),
            min_size=count,
            max_size=count,
        )
    ),
)
def test_verdicts_are_those_of_a_plain_loop(given_scores):
    matrix = np.array(given_scores, float)
    scored = table(a=matrix[:, :, 0], b=matrix[:, :, 1], c=matrix[:, :, 2])
    two = f.AtLeast(m=2, of=(least("a", 1), least("b", 2), f.Threshold(scorer=Named("c"), most=1)))
    rules = f.Filters(base=least("a", 1), easy=least("b", 3), keep=two)
    judged = f.judge(rules, scored, (0.0, 0.5, 1.0))
    for number, trajectory in enumerate(given_scores):
        base = trajectory[0][0] >= 1
        easy = [base and b >= 3 for _, b, _ in trajectory]
        passes = [base and (b >= 3 or (a >= 1) + (b >= 2) + (c <= 1) >= 2) for a, b, c in trajectory]
        kept = [all(passes)] * 3
        expected = {"base": [base] * 3, "easy": easy, "passes": passes, "kept": kept}
        assert {name: verdict(judged, name, 3)[number] for name in expected} == expected
    assert pc.is_null(judged["why"]).to_pylist() == judged["kept"].to_pylist()
    assert f.judge(rules, judged, (0.0, 0.5, 1.0)).equals(judged)  # verdicts are replaced, not piled up


def test_the_stages_are_those_of_the_papers_table_4():
    """Its easy samples and its 2.7k labelled ones add up, so that (iii) counts what needs no label."""
    easy, right = [2966, 2929, 2813, 2479, 2143, 1729], [2966, 2955, 2906, 2740, 2498, 2110]
    place = np.arange(4000)[:, None]
    clear, label = (place < easy).astype(float), (place < right).astype(float)
    rules = f.Filters(base=least("clear", 1), easy=least("clear", 1), keep=least("label", 1))
    judged = f.judge(rules, table(clear=clear, label=label), np.arange(6) / 2)
    stages = f.Stages.of(judged)
    expected = [[4000] * 6, [2966] * 6, easy, right, [2110] * 6]
    assert stages.counts.tolist() == expected
    assert 6 * 2966 - sum(easy) == 2737
    assert str(stages).splitlines()[6].split() == ["2.5", "4,000", "2,966", "1,729", "2,110", "2,110"]
    assert json.loads(json.dumps(stages.to_dict()))["counts"] == expected


# --- reports ------------------------------------------------------------------------------------------

scores_by_step = st.lists(
    st.lists(st.integers(-3, 3).map(float), min_size=5, max_size=5), min_size=1, max_size=8
)


@given(scores_by_step)
@pytest.mark.filterwarnings("ignore:An input array is constant")
def test_sliders_are_ranked_as_scipy_does(given_scores):
    report = f.slider_report(table(a=np.array(given_scores)), "a", least=0.5)
    expected = [stats.spearmanr(row, range(5)).statistic for row in given_scores]
    np.testing.assert_allclose(report.correlation, expected, atol=1e-9)
    assert len(report.below) == sum(not value >= 0.5 - 1e-12 for value in expected)


def test_delta_curves_are_means_over_trajectories_with_intervals_over_origins():
    scores = np.random.default_rng(0).normal(size=(40, 3))
    curves = f.delta_curves(table(shifts=["fog", "snow"] * 20, a=scores), "a")
    fog = (scores - scores[:, :1])[::2]
    np.testing.assert_allclose(curves.mean[0], fog.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose((curves.high - curves.mean)[0, 1:], 1.959964 * stats.sem(fog)[1:])
    assert (curves.shifts, curves.n, curves.mean[:, 0].tolist()) == (("fog", "snow"), (20, 20), [0.0, 0.0])
    doubled = np.concatenate([scores, scores])
    names = [f"t{number:04d}" for number in range(40)] * 2
    again = f.delta_curves(table(shifts=["fog", "snow"] * 40, origins=names, a=doubled), "a")
    np.testing.assert_allclose(again.high, curves.high)  # a copy of every trajectory tells nothing new
    assert json.loads(json.dumps(curves.to_dict()))["n"] == [20, 20]


def test_reports_of_a_built_dataset(judged, folder):
    curves = f.delta_curves(judged, "to-start")
    assert curves.shifts == ("blur", "fade")
    assert (np.diff(curves.mean, axis=1) > 0).all()
    assert f.slider_report(judged, "to-start").below == ()
    assert len(f.slider_report(judged, "ink", least=0).below) == 160  # ink goes where the shift grows
    with Image.open(folder / "filters.png") as picture:
        assert picture.size == f.overview(judged).size
    with pytest.raises(NotFoundError, match=r"unknown filtered base 'contnt'.*Known: extended, mini"):
        f.judged_rows(folder, "contnt")


# --- calibration --------------------------------------------------------------------------------------

labelled = st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=2, max_size=25).filter(
    lambda rows: len({good for _, good in rows}) == 2
)


@given(labelled, st.sampled_from([None, 0.6]), st.sampled_from(["least", "most"]))
def test_the_threshold_is_the_best_of_all(rows, rejection, side):
    scores = {str(number): float(score) for number, (score, _) in enumerate(rows)}
    labels = {str(number): "keep" if good else "drop" for number, (_, good) in enumerate(rows)}

    def outcome(bound: float) -> tuple[int, int, int, int]:
        kept = [score >= bound if side == "least" else score <= bound for score, _ in rows]
        pairs = [(keep, good) for keep, (_, good) in zip(kept, rows, strict=True)]
        return tuple(
            pairs.count(pair) for pair in [(True, True), (True, False), (False, True), (False, False)]
        )

    def figure(bound: float) -> float:
        kept_good, kept_bad, dropped_good, dropped_bad = outcome(bound)
        if rejection is None:
            return 2 * kept_good / (2 * kept_good + kept_bad + dropped_good)
        return dropped_bad / (kept_bad + dropped_bad)

    figures = {bound: figure(bound) for bound in {score for score, _ in rows}}
    good_enough = [b for b, value in figures.items() if value >= (rejection or max(figures.values())) - 1e-9]
    if not good_enough:
        with pytest.raises(InputError, match=r"no threshold reaches a rejection of 0\.6, the best is"):
            calibrate(scores, labels, rejection=rejection, side=side)
        return
    found = calibrate(scores, labels, rejection=rejection, side=side)
    assert found.threshold == (min(good_enough) if side == "least" else max(good_enough))
    confusion = (found.kept_good, found.kept_bad, found.dropped_good, found.dropped_bad)
    assert confusion == outcome(found.threshold)


@pytest.mark.slow
def test_the_script_calibrates_on_published_scores(folder, judged, tmp_path):
    ink = dict(zip(judged["key"].to_pylist(), judged["score_ink"].to_pylist(), strict=True))
    verdicts = [(key, "keep" if ink[key] > 30 else "drop") for key in list(ink)[::7]]
    lines = [f"{key},{verdict},{who}\n" for who in ("ann", "ben") for key, verdict in verdicts]
    differ = [f"{list(ink)[1]},{verdict},cy\n" for verdict in ("keep", "drop")]
    (tmp_path / "labels.csv").write_text("key,label,who\n" + "".join(lines + differ))
    ran = []
    for scorer in ("ink", "inc"):
        command = [sys.executable, "scripts/calibrate_filter.py", folder, "extended", scorer]
        ran.append(
            subprocess.run([*command, tmp_path / "labels.csv"], cwd=ROOT, capture_output=True, text=True)
        )
    assert (ran[0].returncode, "f1 1.0000" in ran[0].stdout) == (0, True), ran[0].stderr
    assert "left out: 0 partly, 1 with different labels" in ran[0].stdout
    assert (ran[1].returncode, "unknown scorer 'inc'" in ran[1].stderr) == (1, True)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"a": "keep", "b": "keep"}, "none of the 2 labels is 'drop'"),
        ({"a": "keep", "z": "drop"}, "'z' is labelled and has no score"),
        ({"a": "keep", "n": "drop"}, "'n' is labelled and has no score"),
    ],
)
def test_labels_that_set_no_threshold_are_refused(labels, message):
    with pytest.raises(InputError, match=message):
        calibrate({"a": 1.0, "b": 0.0, "n": math.nan}, labels)


# --- scorers ------------------------------------------------------------------------------------------


def view(key: str, colour, label: str = "bar", start: Image.Image | None = None, **more) -> f.View:
    picture = Image.new("RGB", (16, 16), colour)
    return f.View(key=key, picture=picture, start=start or picture, label=label, origin=key, **more)


def content(noise: int = 40) -> list[f.View]:
    rng, views = np.random.default_rng(0), []
    for number in range(120):
        label = ("red", "green", "blue")[number % 3]
        colour = np.eye(3)[number % 3] * 60 + rng.integers(0, noise, 3) + 60
        views.append(view(f"{label}-{number}", tuple(colour.astype(int).tolist()), label))
    return views


def test_the_classifier_is_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    y = rng.choice(["a", "b", "c"], 60)
    x = rng.normal(size=(60, 8)) + (y == "b")[:, None]
    model = linear_classifier(x, y, 0.3)
    oracle = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.3).fit(x, y)
    np.testing.assert_allclose([model(row) for row in x], oracle.predict_proba(x), atol=1e-9)


def test_the_right_class_is_told_without_having_seen_the_origin():
    views = content()
    learned = f.RightClass().fit(views)
    scores = asked(learned, views)
    assert (scores > 0.5).mean() > 0.95
    wrong = [replace(one, label="blue" if one.label == "red" else "red") for one in views]
    assert (asked(learned, wrong) < 0.5).mean() > 0.95
    other = [replace(views[0], picture=Image.new("RGB", (16, 16), "white")), *views[1:]]
    assert asked(f.RightClass().fit(other), views)[0] == scores[0]
    assert asked(learned, views[:1])[0] == scores[0]  # whatever else is asked with it


@dataclass
class MeanColour:
    """A toy of the kind of CLIP: pictures are their mean colours, texts the colour they name."""

    encoded: list[int] = field(default_factory=list)

    def fingerprint(self) -> str:
        return "mean-colour"

    def pictures(self, pictures):
        self.encoded.append(len(pictures))
        return np.array([np.asarray(picture, float).mean(axis=(0, 1)) for picture in pictures])

    def texts(self, texts):
        self.encoded.append(len(texts))
        return np.array([["red" in text, "green" in text, "light blue" in text] for text in texts], float)


def test_text_alignment_is_100_times_the_cosine():
    views = [view("a", (9, 0, 0), "red"), view("b", (0, 3, 4), "light_blue"), view("c", (0, 0, 0), "red")]
    encoder = MeanColour()
    np.testing.assert_allclose(asked(f.TextAlignment(encoder=encoder), views), [100, 80, 0])
    assert encoder.encoded == [2, 3]  # each different text once
    foggy = [replace(one, nuisance="red_fog") for one in views]
    of_shift = f.TextAlignment(encoder=encoder, sentence="A picture in {nuisance}", name="shift")
    np.testing.assert_allclose(asked(of_shift, foggy), [100, 0, 0])
    assert of_shift.fingerprint() != f.TextAlignment(encoder=encoder).fingerprint()


def test_the_distance_to_the_start_encodes_each_picture_once():
    start = Image.new("RGB", (16, 16), (10, 0, 0))
    views = [
        view("a", (0, 9, 0), start=start),
        view("b", (5, 5, 0), start=start),
        view("c", (7, 0, 0), start=start),
    ]
    encoder = MeanColour()
    scores = asked(f.ToStart(encoder=encoder), [replace(views[0], picture=start), *views])
    np.testing.assert_allclose(scores, [0, 1, 1 - math.sqrt(0.5), 0], atol=1e-6)
    assert encoder.encoded == [4]
