"""The calibration: what is trained and judged, its record, the command that writes it, and the card."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import shiftdata as sd
from builders.describe.card import render_card
from builders.describe.ranges import ranges
from builders.make.build import build
from builders.recipe_files import load_recipe, read_calibration
from shiftdata.baselines import Training
from shiftdata.bench import calibrate as calibration
from shiftdata.bench.calibrate import calibrate, planned
from shiftdata.cli.app import main as cli
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.records import Calibration, CanonicalSplit, Measure
from shiftdata.data.metadata import read_metadata
from shiftdata.errors import InputError
from shiftdata.evaluation.metrics.statistics import wilson
from tests.contracts.kinds import prepare
from tests.tiny import edit_manifest

QUICK = Training(steps=40, batch=16)


@pytest.fixture(scope="module", autouse=True)
def small_tests() -> Iterator[None]:
    """The tests of tiny datasets have fewer rows than would be measured."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shiftdata.bench.calibrate.LEAST_ROWS", 1)
        yield


@pytest.fixture(scope="module")
def out(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("calibration") / "tiny.calibration.json"


@pytest.fixture(scope="module")
def measured(tiny, out) -> Calibration:
    return calibrate(tiny, out, networks=["small-cnn", "small-resnet"], seeds=2, training=QUICK)


def split(tiny: Path, name: str, protocol: str) -> CanonicalSplit:
    first = Manifest.read(tiny).canonical_splits[0]
    return replace(first, name=name, protocol=protocol)


def test_texts_have_no_model_of_another_base_whose_ngrams_are_others(tiny):
    read = read_metadata(tiny)
    splits = [split(tiny, "drift", "continuous")]
    assert calibration._content(read, splits) is not None
    manifest = read.dataset.manifest
    manifest = replace(manifest, roles=replace(manifest.roles, modality="text"))
    texts = SimpleNamespace(dataset=SimpleNamespace(manifest=manifest), base=read.base)
    assert calibration._content(texts, splits) is None


def test_fairness_has_a_ceiling_and_methods_of_groups(tiny, measured):
    metadata = read_metadata(tiny)
    trials = {(measure.network, measure.seed) for measure in measured.measures}
    assert trials == {("small-cnn", 0), ("small-cnn", 1), ("small-resnet", 0), ("small-resnet", 1)}
    mine = [by for by in measured.measures if (by.network, by.seed) == ("small-cnn", 0)]
    fairness = {measure.trained: measure for measure in mine if measure.split.startswith("gf_")}
    assert set(fairness) == {"ceiling", "ERM", "RWG", "SUBG"}
    names = {value.split for value in fairness.values()}
    assert len(names) == 1  # the largest of at most 8 classes, the smallest share
    task = sd.task(tiny, names.pop())
    ceiling, erm = fairness["ceiling"], fairness["ERM"]
    assert (erm.fit, erm.rows) == (len(task.rows("train")), len(task.rows("test")))
    balanced = sd.task(tiny, "group-fairness", k=len(task.labels), mu=1, nu=(1.0, 1.0))
    assert ceiling.fit == len(balanced.rows("train")) > erm.fit
    assert ceiling.mean[0] > 0.5 > ceiling.chance == 0.25
    assert (ceiling.cells, ceiling.smallest) == (16, len(task.rows("test")) // 16)
    assert measured.content_id == metadata.dataset.manifest.base(metadata.base).content_id
    for measure in measured.measures:
        assert 0 <= measure.worst[0] <= measure.mean[0] <= 1
        assert measure.mean[1] <= measure.mean[0] <= measure.mean[2]
        assert np.mean(list(measure.by_nuisance.values())) == pytest.approx(measure.mean[0], abs=1e-3)


def test_a_ceiling_shares_no_origin_with_its_test_and_sees_the_tested_domain(tiny):
    metadata = read_metadata(tiny)
    lodo, uda = (
        split(tiny, "lodo", "leave-one-domain-out test=red"), split(tiny, "u", "uda source=red target=blue")
    )  # fmt: skip
    jobs = [*planned(metadata, [lodo, uda])[0], *planned(metadata, [uda])[0]]
    assert [(job.split, job.trained) for job in jobs] == [
        ("lodo", "ceiling"), ("lodo", "ERM"), ("u", "ceiling"), ("u", "ERM")
    ]  # fmt: skip
    domains = [
        {metadata.nuisances[number] for number in np.unique(metadata.nuisance[job.rows])} for job in jobs
    ]
    assert domains == [set(metadata.nuisances), set(metadata.nuisances) - {"red"}, {"blue"}, {"red"}]
    for job in jobs:
        assert not set(metadata.origin[job.rows]) & set(metadata.origin[job.tests[0].rows])
    assert (jobs[0].tests[0].rows == jobs[1].tests[0].rows).all()


def test_the_ceiling_of_a_label_shift_has_the_label_shares_of_its_test(tiny, monkeypatch):
    metadata = read_metadata(tiny)
    words = "label-shift source={} target={} alpha=1 seed=0".format(*metadata.nuisances)
    jobs, _ = planned(metadata, [split(tiny, "shift", words)])
    (ceiling,) = (job for job in jobs if job.trained == "ceiling")
    monkeypatch.setattr(calibration, "fit", lambda source, rows, targets, sampler, **options: sampler)
    sampler = calibration.train_model(None, ceiling, QUICK, "small-cnn", 0)
    drawn = metadata.label[ceiling.rows[sampler.rows_of(0)]]
    shares = np.bincount(drawn, minlength=len(metadata.labels)) / len(ceiling.rows)
    assert len(ceiling.marginal) == len(metadata.labels)
    assert np.abs(shares - ceiling.marginal).max() < 3 * np.sqrt(0.25 / len(ceiling.rows))


def test_an_interval_counts_the_rows_of_an_origin_as_one_observation(tiny):
    metadata = read_metadata(tiny)
    groups = np.unique(metadata.group)[:2]
    rows = np.concatenate([np.flatnonzero(metadata.group == group)[:8] for group in groups])
    right = np.array([True] * 6 + [False] * 2 + [True] * 4 + [False] * 4)
    job = calibration.Job("split", "ERM", metadata, rows, [], metadata.label[rows])
    once, thrice = (
        calibration._measure(
            metadata,
            job,
            calibration.Test("test", np.repeat(rows, n)),
            calibration.Trial("small-cnn", "scratch", 0),
            np.repeat(right, n),
            0.0,
        )
        for n in (1, 3)
    )
    assert once.mean == pytest.approx(thrice.mean, abs=1e-4)
    assert once.mean[0] == 0.625
    assert once.worst == pytest.approx((0.5, *wilson(4, 8)), abs=1e-4)
    assert thrice.worst[1:] == pytest.approx(
        once.worst[1:], abs=0.05
    )  # Student's quantile: 8 origins are few
    assert (thrice.cells, thrice.smallest) == (2, 24)


@pytest.mark.slow
def test_severities_are_judged_one_by_one(tmp_path):
    folder = build(str(prepare("continuous", tmp_path)), tmp_path / "out", workers=1, quiet=True)
    made = calibrate(folder, tmp_path / "c.json", networks=["small-cnn"], seeds=1, training=Training(steps=5))
    mine = [measure for measure in made.measures if measure.trained == "untouched"]
    task = sd.task(folder, mine[0].split)
    metadata = task.metadata
    severity = metadata.columns["severity"]
    steps = np.unique(severity[task.rows("test")]).tolist()
    assert [measure.set for measure in mine] == [f"severity {step:g}" for step in steps]
    content = read_metadata(folder, "content")
    train = np.flatnonzero(content.columns["split"] == 0)
    assert mine[0].fit == len(train) > 0
    names = np.array(content.origin_names)[np.unique(content.origin[train])]
    assert not set(names) & set(
        np.array(metadata.origin_names)[np.unique(metadata.origin[task.rows("test")])]
    )
    assert mine[0].cells == len(np.unique(metadata.nuisance[task.rows("test")]))
    card = render_card(replace(Manifest.read(folder), calibration=made))
    assert "the accuracy falls with the severity" in card


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["text", "table"])
def test_texts_and_tables_are_trained_from_scratch_alone(kind, tmp_path):
    folder = build(str(prepare(kind, tmp_path)), tmp_path / "out", workers=1, quiet=True)
    with pytest.raises(InputError, match=rf"small-cnn is not calibrated on examples of {kind}: choose from"):
        calibrate(folder, tmp_path / "c.json", networks=["small-cnn"])
    made = calibrate(folder, tmp_path / "c.json", seeds=2, training=Training(steps=5))
    trials = {(by.network, by.seed, by.mode) for by in made.measures}
    assert trials == {(name, seed, "scratch") for name in ("linear", "mlp") for seed in (0, 1)}


@pytest.mark.slow
def test_a_calibration_is_written_next_to_its_recipe_and_built_into_the_card(
    recipe, tiny_out, tmp_path, capsys
):
    mine = shutil.copytree(recipe.parent, tmp_path / "recipe") / recipe.name
    folder = shutil.copytree(tiny_out, tmp_path / "out") / "shift" / "tiny"  # with its rendered blocks
    before = load_recipe(str(mine))
    arguments = ["calibrate", str(folder), "--recipe", str(mine), "--network", "small-cnn", "--steps", "3"]
    assert cli(arguments) == 0
    assert f"Next, to have it on the card: shiftdata build {mine}" in capsys.readouterr().out
    made = load_recipe(str(mine))
    assert made.recipe_id() == before.recipe_id()
    build(str(mine), tmp_path / "out", workers=1, quiet=True)
    manifest = Manifest.read(folder)
    assert manifest.calibration == made.calibration is not None
    card = (folder / "README.md").read_text()
    assert re.search(r"^\| `gf_\w+` \| from scratch \| worst group \| 0.25 \| ", card, re.M)
    assert "Out of date" not in card
    assert cli(["check", str(folder), "--recipe", str(mine)]) == 0
    assert "warning: the calibration" not in capsys.readouterr().out


def test_the_verb_writes_next_to_the_dataset(copy, capsys):
    assert cli(["calibrate", str(copy), "--network", "small-cnn", "--seeds", "1", "--steps", "1"]) == 0
    printed = capsys.readouterr()
    assert ", ceiling, small-cnn, seed 0, test: mean " in printed.out
    assert re.search(r"^2 of \d+, 0 min left: gf_\w+, RWG, small-cnn, seed 0$", printed.err, re.M)
    assert read_calibration(copy.with_name("tiny.calibration.json")).steps == 1


def test_a_record_of_another_form_is_refused(tiny, tmp_path):
    path = tmp_path / "tiny.calibration.json"
    path.write_text(json.dumps({"base": "mini", "content_id": "0" * 64, "features": "", "measures": []}))
    for read in (read_calibration, lambda path: calibrate(tiny, path, networks=["small-cnn"])):
        with pytest.raises(InputError, match=r"is not a calibration.*'features' is an unknown field"):
            read(path)


def test_a_calibration_of_another_build_says_so(tiny, measured):
    stale = replace(Manifest.read(tiny), calibration=replace(measured, content_id="0" * 64))
    assert "**Out of date:** the calibration was measured on another build of `mini`" in render_card(stale)


def test_a_record_reads_back_and_is_refused_if_it_is_damaged(measured, out, tiny, tmp_path):
    assert read_calibration(out) == measured
    path = tmp_path / "tiny.calibration.json"
    path.write_text(json.dumps({**asdict(measured), "steps": "many"}))
    with pytest.raises(InputError, match=r"is not a calibration: steps is 'many'.*run"):
        read_calibration(path)
    copy = shutil.copytree(tiny, tmp_path / "tiny")
    wrong = asdict(measured)
    wrong["measures"][0]["mean"] = (2.0, 0.0, 1.0)
    edit_manifest(copy, lambda raw: raw.update(calibration=wrong))
    with pytest.raises(sd.errors.IntegrityError, match="not between 0 and 1"):
        Manifest.read(copy)


def test_what_is_left_out_has_a_reason(tiny):
    jobs, (reason,) = planned(read_metadata(tiny), [split(tiny, "gf_k9", "group-fairness k=90 mu=0.1")])
    assert not jobs
    assert "k=90 needs as many labels" in reason


def test_splits_are_chosen_by_name_or_a_few_of_each_protocol(tiny):
    metadata = read_metadata(tiny)
    lodo = [split(tiny, f"lodo_{name}", f"leave-one-domain-out test={name}") for name in metadata.nuisances]
    shifted = split(tiny, "shift", "label-shift@code source=red target=blue alpha=1")
    assert calibration.protocol_of(shifted) == "label-shift"
    names = [split.name for split in calibration._chosen("leave-one-domain-out", lodo)]
    assert names == [lodo[1].name, lodo[3].name]
    assert {job.split for job in planned(metadata, lodo, ["lodo_red"])[0]} == {"lodo_red"}
    with pytest.raises(sd.errors.NotFoundError, match="unknown canonical split 'lodo_rde'; did you mean"):
        planned(metadata, lodo, ["lodo_rde"])


def test_a_larger_training_set_is_cut_to_the_rows_that_a_training_draws(tiny, monkeypatch):
    metadata = read_metadata(tiny)
    lodo = split(tiny, "lodo", "leave-one-domain-out test=red")
    (whole, _), _ = planned(metadata, [lodo])
    monkeypatch.setattr(calibration, "MOST_ROWS", 20)
    (ceiling, erm), _ = planned(metadata, [lodo])
    assert len(ceiling.rows) == len(erm.rows) == len(np.unique(ceiling.rows)) == 20
    assert set(ceiling.rows) < set(whole.rows)


def test_features_that_are_not_installed_are_named_before_any_training(tiny, monkeypatch):
    monkeypatch.setitem(sys.modules, "efficientnet_lite_pytorch", None)
    monkeypatch.setattr("shiftdata.bench.calibrate.train_model", None)
    with pytest.raises(sd.errors.MissingExtraError, match=r"EfficientNet-Lite0 needs.*shiftdata\[base"):
        calibrate(tiny, "unwritten.json")


@pytest.mark.slow
def test_a_calibration_that_was_stopped_goes_on_and_ends_the_same(tiny, measured, tmp_path):
    trained: list[str] = []

    def stop(text: str, done: int, total: int) -> None:
        if len(trained) == 3:  # reading, then two trainings
            raise KeyboardInterrupt
        trained.append(text)

    out = tmp_path / "c.json"
    settings = {"networks": ["small-cnn", "small-resnet"], "seeds": 2, "training": QUICK}
    with pytest.raises(KeyboardInterrupt):
        calibrate(tiny, out, **settings, on_job=stop)
    trained.clear()
    resumed = calibrate(tiny, out, **settings, on_job=lambda text, done, total: trained.append(text))
    shown = [replace(row, seconds=0.0) for row in resumed.measures]
    assert shown == [replace(row, seconds=0.0) for row in measured.measures]
    runs = len({(row.split, row.trained, row.network, row.seed) for row in measured.measures})
    assert len(trained) == runs - 2 + 1
    trained.clear()
    settings["training"] = Training(steps=1, batch=16)
    calibrate(tiny, out, **settings, on_job=lambda text, done, total: trained.append(text))
    assert len(trained) == runs + 1


def made(split: str, trained: str, network: str, seed: int, angle: float, mode: str = "scratch") -> Measure:
    """Return a measure with the accuracy sin(angle)^2, whose test has 10,000 rows."""
    share = np.sin(np.clip(angle, 0, np.pi / 2)) ** 2
    interval = float(share), *wilson(10_000 * share, 10_000)
    return Measure(
        split=split, trained=trained, network=network, seed=seed, mode=mode, fit=1, set="test", rows=10_000,
        cells=1, smallest=1, chance=0.1, mean=interval, worst=interval, worst_cell="", by_nuisance={},
        seconds=0.0,
    )  # fmt: skip


def test_nine_of_ten_further_networks_fall_into_the_interval(monkeypatch):
    monkeypatch.setattr("builders.describe.ranges.TRAINERS", 0.06)  # less than there is
    generator = np.random.default_rng(0)
    inside = {"scratch": [], "frozen": []}
    for _ in range(300):
        splits = [(f"split{number}", generator.uniform(0.6, 1.0)) for number in range(5)]
        measures = [
            made(split, "ERM", network, seed, effect + generator.normal(0, 0.03), mode)
            for mode, networks in (("scratch", "ab"), ("frozen", "c"))
            for network in networks
            for split, middle in splits
            for effect in [middle + generator.normal(0, 0.1)]
            for seed in range(3)
        ]
        known = ranges(measures, "mean")
        for split, middle in splits:
            further = np.sin(middle + generator.normal(0, np.hypot(0.1, 0.03))) ** 2
            for mode, answers in inside.items():
                low, high = known[split, "ERM", "test", mode].expected
                answers.append(low <= further <= high)
    for answers in inside.values():
        assert 0.87 < np.mean(answers) < 0.95


def test_networks_that_agree_leave_room_for_another_trainer():
    measures = [made("split", "ERM", network, seed, 1.4) for network in "ab" for seed in range(3)]
    low, high = ranges(measures, "mean")["split", "ERM", "test", "scratch"].expected
    assert low < 0.93
    assert high > 0.99


def test_a_single_network_has_a_range_and_no_interval():
    measures = [made("split", "ERM", "a", seed, 0.5 + seed / 10) for seed in range(3)]
    known = ranges(measures, "worst")["split", "ERM", "test", "scratch"]
    assert known.expected is None
    assert known.low == pytest.approx(np.sin(0.5) ** 2)
    assert known.high == pytest.approx(np.sin(0.7) ** 2)


@pytest.mark.parametrize(
    ("ceiling", "erm", "answer"),
    [
        (1.4, 0.9, "yes on `gf`"),
        (1.4, 1.26, "weakly on `gf`"),
        (1.4, 1.37, "no (ERM reaches the ceiling) on `gf`"),
        (0.6, 0.2, "no (the ceiling is too low) on `gf`"),
    ],
)
def test_a_card_answers_if_a_split_shows_a_shift(tiny, ceiling, erm, answer):
    measures = [
        made("gf", trained, network, seed, angle + 0.06 * (network == "b"))
        for network in "ab"
        for seed in range(3)
        for trained, angle in (("ceiling", ceiling), ("ERM", erm))
    ]
    calibration = Calibration(
        base="mini", content_id="", steps=1, batch=1, side=32, versions={}, measures=measures
    )
    card = render_card(replace(Manifest.read(tiny), calibration=calibration))
    assert f"- **from scratch (a, b)**: {answer}." in card
