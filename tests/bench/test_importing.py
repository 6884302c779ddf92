"""Authors' files as their own code writes them, against their rules computed again in a few lines."""

from __future__ import annotations

import csv
import json
import re
import shutil
import zipfile
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest

from shiftdata.bench import Records, report, select
from shiftdata.bench.importing import import_records
from shiftdata.bench.leaderboard.submitting import dataset_of
from shiftdata.bench.reporting.scores import scores_of
from shiftdata.cli.app import main
from shiftdata.errors import InputError, LimitError, NotFoundError

SIZES = {"in": (1132, 2125, 2626, 2701), "out": (283, 531, 656, 675)}  # VLCS: C, L, S, V


@pytest.fixture(scope="module")
def sweep(tmp_path_factory) -> tuple[Path, list[dict]]:
    """DomainBed's train.py: a line of JSON at each checkpoint, of every one and two test domains."""
    folder, draw, lines = tmp_path_factory.mktemp("sweep"), np.random.default_rng(0), []
    held_out = [*combinations(range(4), 1), *combinations(range(4), 2)]
    for algorithm, seed, trial, tests in product(("ERM", "CORAL"), (0, 1), (0, 1, 2), held_out):
        run = folder / f"{algorithm}{seed}{trial}{''.join(map(str, tests))}"
        run.mkdir()
        args = {"dataset": "VLCS", "algorithm": algorithm, "trial_seed": seed, "hparams_seed": trial}
        of_run = [{"args": {**args, "test_envs": list(tests)}, "step": step} for step in (0, 300, 600)]
        for line, (part, domain) in product(of_run, product(SIZES, range(4))):
            n = SIZES[part][domain]
            line |= {f"env{domain}_{part}_acc": int(draw.integers(n // 2, n)) / n, "loss": float("nan")}
            line["hparams"] = {"lr": 0.1 / (1 + trial)}
        text = "".join(json.dumps(line, sort_keys=True) + "\n" for line in of_run)
        (run / "results.jsonl").write_text(text)
        lines += of_run
    return folder, lines


def expected(lines: list[dict], algorithm: str, seed: int, test: int, rule: str) -> float:
    """The accuracy that DomainBed's model_selection.py picks: the best step of the best trial of one seed."""
    others = [domain for domain in range(4) if domain != test]
    scored = []
    for line in lines:
        args = line["args"]
        if (args["algorithm"], args["trial_seed"], args["test_envs"]) != (algorithm, seed, [test]):
            continue
        if rule == "oracle-last" and line["step"] < 600:
            continue
        score = line[f"env{test}_out_acc"]
        if rule == "iid-mean-domain":
            score = np.mean([line[f"env{domain}_out_acc"] for domain in others])
        if rule == "lodo-cv":
            folds = [
                other[f"env{domain}_in_acc"]
                for other, domain in product(lines, others)
                if other["args"] == args | {"test_envs": sorted((test, domain))}
                and other["step"] == line["step"]
            ]
            assert len(folds) == 3
            score = np.mean(folds)
        scored.append((score, line[f"env{test}_in_acc"]))
    return max(scored)[1]


@pytest.mark.parametrize("rule", ["iid-mean-domain", "lodo-cv", "oracle-last"])
def test_domainbeds_rules_pick_what_its_code_picks(sweep, tmp_path: Path, rule: str):
    folder, lines = sweep
    records = import_records("domainbed", folder, tmp_path)
    scores, refused = scores_of(records, rule)
    assert (len(records), len(scores), refused) == (48, 16, [])
    for score in scores:
        ((domain, (found,)),), seed = score.domains.items(), score.params["seed"]
        algorithm = score.selected.study.method.upper()
        assert found == pytest.approx(100 * expected(lines, algorithm, seed, "CLSV".index(domain), rule))
        assert score.n == SIZES["in"]["CLSV".index(domain)]  # inferred from the accuracies alone


def test_the_same_files_give_the_same_records_which_say_that_they_are_imported(sweep, tmp_path: Path, capsys):
    assert main(["import", "domainbed", str(sweep[0]), "--out", str(tmp_path / "a"), "--quiet"]) == 0
    files = [path.read_bytes() for path in sorted((tmp_path / "a").rglob("*.*"))]
    assert "48 runs of 16 studies" in capsys.readouterr().out
    records = import_records("domainbed", sweep[0], tmp_path / "a")
    assert files == [path.read_bytes() for path in sorted((tmp_path / "a").rglob("*.*"))]
    text = str(report(records))
    assert "Report on imported domainbed" in text
    assert f"VLCS ({records.column('content_id')[0][:21]})" in text
    assert "imported from the authors' files, not rerun" in text
    with pytest.raises(InputError, match="a leaderboard judges predictions by a dataset's rows"):
        dataset_of(records)
    with pytest.raises(InputError, match="has the records of another sweep"):
        import_records("cns-bench", sweep[0], tmp_path / "a")


def test_a_fold_that_is_missing_refuses_cross_validation_alone(sweep, tmp_path: Path):
    for run in sweep[0].iterdir():
        if run.name != "ERM0001":
            shutil.copytree(run, tmp_path / run.name)
    records = import_records("domainbed", tmp_path, tmp_path / "runs")
    refused = [of for of in select(records, "lodo-cv") if of.refused]
    assert [of.study.task[18:-1] for of in refused] == ["C', seed=0", "L', seed=0"]
    assert not any(of.refused for of in select(records, "iid-mean-domain"))


def eval_csv(folder: Path, run: str, rate: str, epochs: list[dict[str, float]]) -> None:
    """RLSbench's ResultsLogger in the folder of its run_main.py; accuracies are per cent."""
    place = folder / f"cifar10_split:71_alpha:0.5_seed:42/{run}_RLLS_source_bal:True_pretrained:imagenet"
    place /= f"lr:{rate}_wd:0.0001_bs:200_opt:SGD"
    place.mkdir(parents=True)
    with (place / "eval.csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(epochs[0]))
        writer.writeheader()
        writer.writerows(epochs)


def test_rlsbench_takes_the_first_best_epoch_on_source_and_weights_as_its_code(tmp_path: Path):
    def epoch(number: int, source: int, plain: int, weighted: int, balanced: int) -> dict[str, float]:
        target = np.array([plain, weighted, balanced]) / 1999 * 100
        return {
            "epoch": number, "source_acc": np.mean(np.arange(997) < source) * 100, "RLLS_AE": 0.25,
            "target_acc_no_im": target[0], "target_acc_RLLS": target[1], "multarget_acc_RLLS": target[2],
        }  # fmt: skip

    # 1781 of 1999 are 89.1 %, 1787 are 89.4 %, as table 5 prints for CIFAR-10, source only.
    eval_csv(tmp_path, "ERM-aug", "0.01", [epoch(5, 800, 1, 2, 3), epoch(10, 900, 1781, 1787, 4)])
    eval_csv(tmp_path, "ERM-aug", "0.1", [epoch(5, 899, 5, 6, 7), epoch(10, 900, 8, 9, 10)])
    eval_csv(tmp_path, "IS-DANN", "0.01", [epoch(5, 700, 1500, 11, 1600), epoch(10, 700, 12, 13, 14)])
    source_only = tmp_path / "cifar10_seed:42/ERM_pretrained:rand/lr:1_wd:0_bs:2_opt:SGD"
    source_only.mkdir(parents=True)
    (source_only / "eval.csv").write_text("epoch,source_acc\n5,80.0\n")
    records = import_records("rlsbench", tmp_path, tmp_path / "runs")
    task = "cifar10_split:71_alpha:0.5_seed:42"
    shutil.copytree(tmp_path / task, tmp_path / "again" / task)
    with pytest.raises(InputError, match="has two runs of"):
        import_records("rlsbench", tmp_path, tmp_path / "again")
    scores, _ = scores_of(records, "iid")
    found = {score.method: round(score.main[0] * score.n / 100) for score in scores}
    assert found == {"erm": 1781, "rw": 1787, "rs+dann": 1500, "rs+rw+dann": 1600}
    assert {score.n for score in scores} == {1999}
    assert "rlsbench, table 5, accuracy, iid: 2 of 4 figures are as printed" in str(report(records))
    assert records.evaluation(1).figures["marginal_error"] == 0.25


PRINTED = {0: 0.90, 500: 0.90, 1000: 0.88, 1500: 0.85, 2000: 0.80, 2500: 0.72}  # table 2, resnet18.a1_in1k
RESNET = "resnet18.a1_in1k"


def results(folder: Path, model: str, seeds: int = 100, pictures: str = "") -> None:
    """CNS-Bench's prepare_csv_files.py; each trajectory fails from some scale on, as often as printed."""
    folder.mkdir(exist_ok=True)
    names = ["", "pred_class", "gt_class", "shift", "class_str", "img_name", "class_name", "seed", "scale"]
    for shift, size, offset in (("heavy_snow", 1, 0.03), ("cartoon_style", 3, -0.01)):
        with (folder / f"{model}__{shift}.csv").open("w", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow([*names, model])
            for (label, name), seed, (scale, accuracy) in product(
                ((2, "002_great white shark"), (22, "022_bald eagle")), range(size * seeds), PRINTED.items()
            ):
                right = (seed + 0.5) / (size * seeds) < accuracy + offset
                picture, predicted = f"seed_{seed:04}_scale_{scale}{pictures}.JPEG", label if right else 907
                row = [0, predicted, label, shift, name, picture, name.split("_")[-1]]
                writer.writerow([*row, f"{seed:04}", scale / 1000, right])


def test_cns_benchs_figures_are_as_its_paper_prints_them(tmp_path: Path):
    results(tmp_path / "results", RESNET)
    results(tmp_path / "results", "mine")
    with zipfile.ZipFile(tmp_path / "results.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in (tmp_path / "results").iterdir():
            archive.write(path, f"results/{path.name}")
    records = import_records("cns-bench", tmp_path / "results.zip", tmp_path / "runs")
    figures = records.evaluation(1).figures
    assert [float(figures[f"failures@{at}"]) for at in ("0", "0.5", "1", "1.5", "2", "2.5")] == pytest.approx(
        [n / 28 for n in (10, 0, 2, 3, 5, 8)]
    )
    assert float(figures["mean_failure_point"]) == pytest.approx(0.02 + 0.045 + 0.1 + 0.2 + 0.72 * 3)
    text = str(report(records))
    assert "cns-bench, table 2, accuracy, last: 7 of 7 figures are as printed" in text
    assert "cns-bench, table 2, accuracy drop, last: 4 of 5 figures are as printed" in text
    assert re.search(r"resnet18.a1_in1k +2.5 +0.19 +0.180 +-0.010\n", text)  # .90 - .72, which they rounded
    assert "cns-bench, table 3, failure share, last: 1 of 6" in text  # their models also fail and recover


def test_thirty_models_are_on_the_line(tmp_path: Path):
    draw, truth = np.random.default_rng(0), {"original": 400, "v6": 200}
    labels = {side: draw.integers(0, 10, n) for side, n in truth.items()}
    (tmp_path / "datasets").mkdir()
    np.save(tmp_path / "datasets/cifar10.1_v6_labels.npy", labels["v6"].astype(np.int32))
    for side, true in labels.items():
        folder = tmp_path / f"model_predictions/{side}_predictions"
        folder.mkdir(parents=True)
        for model in range(6):
            predicted = np.where(np.arange(len(true)) % 7 <= model, true, (true + 1) % 10)
            (folder / f"net{model}_predictions.json").write_text(json.dumps(predicted.tolist()))
    records = import_records("cifar-10.1", tmp_path, tmp_path / "without")
    assert records.sets_of(0, "select") == []  # nobody has copied CIFAR-10's labels there
    np.save(tmp_path / "cifar10_test_set_original_labels.npy", labels["original"])
    records = import_records("cifar-10.1", tmp_path, tmp_path / "runs")
    assert records.evaluation(2).accuracy == np.mean(np.arange(200) % 7 <= 2)
    assert records.evaluation(2, "validation").accuracy == np.mean(np.arange(400) % 7 <= 2)
    predicted = json.loads((tmp_path / "model_predictions/v6_predictions/net2_predictions.json").read_text())
    assert Records.read(tmp_path / "runs").predicted(2).tolist() == predicted
    assert "Least squares in probit axes, 6 models" in str(report(records))


def test_files_of_another_form_are_named(sweep, tmp_path: Path):
    def refused(form: str, match: str, error: type[Exception] = InputError, path: Path = tmp_path) -> None:
        with pytest.raises(error, match=match):
            import_records(form, path, tmp_path / "runs")

    refused("domainbed", "there is no", NotFoundError, tmp_path / "nowhere")
    refused("cns-bench", r"has no \*__\*.csv: give the folder")
    (tmp_path / "results.jsonl").write_text('{"step": 1}\n')
    refused("domainbed", "results.jsonl has another form: KeyError.*args")
    args = {"dataset": "D", "algorithm": "ERM", "hparams_seed": 0, "trial_seed": 0, "test_envs": [5]}
    (tmp_path / "results.jsonl").write_text(json.dumps({"args": args, "step": 1, "hparams": {}}))
    refused("domainbed", "a file has another form: KeyError")
    refused("rlsbench", "neither a folder nor a whole zip", path=tmp_path / "results.jsonl")
    (tmp_path / "a_split:1_seed:2").mkdir()
    (tmp_path / "a_split:1_seed:2/eval.csv").write_text("epoch\n5\n")
    refused("rlsbench", "eval.csv has another form: .*its folders do not say dataset")
    results(tmp_path, "a", seeds=2)
    results(tmp_path, "b", seeds=2, pictures="x")
    refused("cns-bench", "b was tested on other pictures than the first")
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("m__s.csv", bytes(66 << 20))
    refused("cns-bench", "would unpack", LimitError, tmp_path / "bomb.zip")
    line = (sweep[0] / "ERM000/results.jsonl").read_text()
    line = re.sub('"env0_in_acc": [^,]*', '"env0_in_acc": 0.0123456789', line)
    (tmp_path / "results.jsonl").write_text(line)
    refused("domainbed", "is not a share of the rows of the other accuracies")
