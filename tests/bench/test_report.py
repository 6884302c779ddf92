"""Reports on synthetic records: tables of each kind, oracles, failures, formats."""

from __future__ import annotations

import csv
import io
import re

import numpy as np
import pytest

from shiftdata.baselines import METHODS
from shiftdata.bench import Records
from shiftdata.bench.papers import published
from shiftdata.bench.reporting import report
from shiftdata.bench.reporting.comparisons import boards
from shiftdata.bench.reporting.layouts import NAMES
from shiftdata.bench.reporting.scores import KINDS, kind_of
from shiftdata.cli.app import main
from shiftdata.errors import NotFoundError
from tests.bench.synthetic import made_task, synthetic
from tests.evaluation.protocols.made import metadata
from tests.paths import ROOT

PAIRS = (("kind0", "kind1"), ("kind2", "kind3"), ("kind1", "kind2"))


def mean_and_error(values):
    """The mean with its standard error, as a table prints them."""
    return f"{np.mean(values):.1f}±{np.std(values, ddof=1) / np.sqrt(len(values)):.1f}"


@pytest.fixture(scope="module")
def fair(tmp_path_factory):
    """Two settings of K and mu, three methods of which one run fails."""
    folder = tmp_path_factory.mktemp("fair")
    return synthetic(folder, failed=[("rwg", 1, 2)], rules=("iid-worst", "oracle"))


@pytest.fixture(scope="module")
def uda(tmp_path_factory):
    of = metadata(20, 4, 20)
    tasks = {text: made_task(text, of) for text in (f"uda source={a} target={b}" for a, b in PAIRS)}
    skills = {"erm": (0.5, 0.5), "dann": (0.6, 0.6), "cdan": (0.7, 0.7)}
    return synthetic(tmp_path_factory.mktemp("uda"), tasks=tasks, methods=skills, trials=1, rules=("last",))


def section(made, start):
    return next(section for section in made.sections if section.title.startswith(start))


def grid(table, part=0):
    """A block as a mapping from row and column to what is printed."""
    of = table.blocks[part]
    return {
        (row, column): cell for row, *cells in of.body for column, cell in zip(of.columns, cells, strict=True)
    }


def test_fairness_has_the_worst_group_over_mu_with_its_spread(fair):
    table = section(report(fair, ["iid-worst"]), "Group fairness").tables[0]
    assert table.blocks[0].header == ("K = 4, by mu", "0.2", "0.5")
    runs = fair.where(method="group-dro", trial=0, protocol="group-fairness k=4 mu=0.2")
    chosen = next(
        score for score in report_scores(fair) if score.method == "group-dro" and score.params["mu"] == 0.2
    )
    worst = [100 * fair.evaluation(at.run, "test", at.step).worst for at in chosen.selected.runs]
    assert grid(table)["group-dro", "0.2"] == mean_and_error(worst)
    assert len(runs) == 3
    assert [
        table.title.partition(",")[0] for table in section(report(fair, ["iid-worst"]), "Group").tables
    ] == [
        "Worst group",
        "3 worst groups",
        "Mean over groups",
        "Gap of equal opportunity",
        "Gap of equalized odds",
    ]


def report_scores(records, rule="iid-worst"):
    from shiftdata.bench.reporting.scores import scores_of

    return scores_of(records, rule)[0]


def test_under_every_table_stand_n_seeds_rule_dataset_commit_and_version(fair):
    for table in section(report(fair, ["iid-worst"]), "Group fairness").tables:
        text = " ".join(table.notes)
        for said in (
            "n = 96 test rows",
            "3 seeds",
            "iid-worst",
            "content_id cccc",
            "commit abc123",
            "shiftdata 0.1",
        ):
            assert said in text
        assert "SD / √seeds" in text


def test_an_oracle_is_marked_wherever_its_numbers_are(fair):
    made = report(fair)  # the sweep's own rules
    marked = section(made, "Group fairness: table, heads, selected by oracle (oracle)")
    for table in marked.tables:
        assert all(row.endswith("(oracle)") for of in table.blocks for row, *_ in of.body)
    for line in csv.DictReader(io.StringIO(made.to_csv())):
        assert (line["oracle"] == "True") == (line["rule"] == "oracle (oracle)")
    ranked = section(made, "Ranks").tables[0]
    assert "oracle (oracle)" in ranked.blocks[0].columns
    compared = [table for table in section(made, "Paired").tables if "oracle" in table.title]
    assert all(row.endswith("(oracle)") for table in compared for row, *_ in table.blocks[0].body)


def test_adaptation_has_scenarios_in_rows_and_their_mean_with_its_error(uda):
    made = report(uda)
    table = section(made, "Domain adaptation").tables[0]
    rows = [row for row, *_ in table.blocks[0].body]
    assert set(rows[:-1]) == {f"{a} → {b}" for a, b in PAIRS}
    assert rows[-1] == "mean"
    means = [score.main.mean() for score in report_scores(uda, "last") if score.method == "cdan"]
    assert grid(table)["mean", "cdan"] == mean_and_error(means)
    beside = next(table for table in section(made, "Ranks").tables if "paper" in table.title)
    assert grid(beside)["cdan", "sma 4 to 8, means"] == "74.56"  # as the paper's tables have it


def test_a_mean_is_over_the_scenarios_that_all_methods_have(uda, tmp_path):
    fewer = without(uda, "dann", "uda source=kind0 target=kind1")
    table = section(report(fewer, ["last"]), "Domain adaptation").tables[0]
    assert "2 of 3 scenarios" in table.notes[0]
    means = [score.main.mean() for score in report_scores(uda, "last") if score.method == "erm"]
    first = [score.params["source"] for score in report_scores(uda, "last") if score.method == "erm"].index(
        "kind0"
    )
    assert grid(table)["mean", "erm"].startswith(f"{np.mean(np.delete(means, first)):.1f}")
    ranked = section(report(fewer, ["last"]), "Ranks").tables[0]
    assert {row for row, *_ in ranked.blocks[0].body} == {"erm", "cdan"}  # those that have every task


def test_domains_have_an_average_and_its_rank(tmp_path):
    of = metadata(5, 3, 40, shared=False)
    tasks = {text: made_task(text, of) for text in (f"leave-one-domain-out test=kind{n}" for n in range(3))}
    skills = {"erm": (0.8, 0.6), "swad": (0.9, 0.9), "irm": (0.5, 0.4)}
    records = synthetic(tmp_path, tasks=tasks, methods=skills, trials=1)
    table = section(report(records, ["iid"]), "Domain generalization").tables[0]
    cells = grid(table)
    assert set(table.blocks[0].columns) == {"kind0", "kind1", "kind2", "average", "rank"}
    assert [cells[method, "rank"] for method in ("swad", "erm", "irm")] == ["1", "2", "3"]
    of_seeds = np.array(
        [score.main for score in report_scores(records, "iid") if score.method == "erm"]
    )  # domains x seeds
    assert cells["erm", "average"] == mean_and_error(of_seeds.mean(axis=0))
    fewer = without(records, "irm", "leave-one-domain-out test=kind1")
    table = section(report(fewer, ["iid"]), "Domain generalization").tables[0]
    assert grid(table)["irm", "average"] == grid(table)["irm", "rank"] == grid(table)["irm", "kind1"] == ""
    assert "without an average: irm" in table.notes[0]


def without(records, method, protocol):
    """The records but for one study."""
    studies = zip(records.column("method"), records.column("protocol"), strict=True)
    kept = [study != (method, protocol) for study in studies]
    return Records(records.runs.filter(kept), records.tasks)


def test_label_shift_is_relative_to_the_method_without_correction(tmp_path):
    of = metadata(4, 3, 60)
    tasks = {text: made_task(text, of) for text in ("label-shift alpha=1", "label-shift alpha=10")}
    records = synthetic(tmp_path, tasks=tasks, methods={"rs+rw": (0.8, 0.8), "erm": (0.7, 0.7)}, trials=1)
    accuracy, relative, error = section(report(records, ["last"]), "Label shift").tables
    assert accuracy.blocks[0].columns == ("10", "1")  # from mild to severe
    scores = {(score.method, score.params["alpha"]): score.main for score in report_scores(records, "last")}
    assert grid(relative)["rs+rw", "1"] == mean_and_error(
        scores["rs+rw", 1] - scores["erm", 1]
    )  # paired by seed
    assert grid(relative)["erm", "1"].startswith("0.0")
    assert "l1" in error.title


def continuous(folder):
    of = metadata(4, ["rain", "snow"], 20, severities=(0.0, 1.0, 2.0))
    task = made_task("continuous", of)
    skills = {"erm": (0.9, 0.7), "swad": (0.9, 0.85)}
    return synthetic(folder, tasks={"continuous": task}, methods=skills, trials=1)


def test_continuous_shifts_have_accuracy_by_severity_and_failures(tmp_path):
    records = continuous(tmp_path)
    made = report(records, ["last"])
    along, drops, sums = section(made, "Continuous").tables
    assert along.blocks[0].columns == ("0", "1", "2")
    assert drops.blocks[0].columns == ("1", "2")
    assert "mean failure point (severity)" in sums.blocks[0].columns


def test_universal_has_known_unknown_and_their_harmonic_mean(tmp_path):
    of = metadata(20, 4, 20)
    tasks = {text: made_task(text, of) for text in (f"unida source={a} target={b}" for a, b in PAIRS[:2])}
    records = synthetic(tmp_path, tasks=tasks, trials=1)
    made = report(records, ["last"])
    scenarios, parts = section(made, "Universal").tables
    assert [row for row, *_ in scenarios.blocks[0].body][-1] == "mean"
    assert parts.blocks[0].columns == ("known classes", "unknown classes", "H-score")
    fewer = without(records, "rwg", next(iter(tasks)))
    parts = section(report(fewer, ["last"]), "Universal").tables[1]
    shared = next(
        score
        for score in report_scores(fewer, "last")
        if score.method == "erm" and score.params["source"] == "kind2"
    )
    assert grid(parts)["erm", "known classes"] == f"{shared.figures['known'].mean():.1f}"


def test_failed_runs_are_named_with_their_reason(fair):
    table = section(report(fair), "Failures").tables[0]
    ((reason, count, which),) = table.blocks[0].body
    assert (reason, count) == ("diverged: the loss is nan after step 7", "2")
    assert "rwg on group-fairness@1(k=4, mu=0.5, seed=0), trial 1, seed 2" in which


def test_a_rule_that_cannot_choose_is_named_and_the_others_go_on(fair):
    made = report(fair, ["last", "iid"])
    assert section(made, "Group fairness: table, heads, selected by iid")
    refused = section(made, "Failures").tables[1]
    assert refused.blocks[0].body[0][0].startswith("last: last chooses a step and not a trial")
    assert refused.blocks[0].body[0][1] == "6"


def test_rules_are_those_of_each_sweep(tmp_path):
    records = synthetic(tmp_path / "a", rules=("iid", "oracle"), trials=1, sweep="a")
    assert {line["rule"] for line in report(records).numbers} == {"iid", "oracle (oracle)"}
    (tmp_path / "a" / "sweep.json").unlink()
    assert {line["rule"] for line in report(Records.read(tmp_path / "a")).numbers} == {"iid"}
    with pytest.raises(NotFoundError, match="selection rule"):
        report(records, ["best"])


def test_csv_has_a_line_for_each_figure_that_says_all_of_it(fair):
    lines = list(csv.DictReader(io.StringIO(report(fair, ["iid-worst"]).to_csv())))
    line = next(line for line in lines if (line["method"], line["figure"]) == ("erm", "worst"))
    score = next(score for score in report_scores(fair) if score.method == "erm")
    assert float(line["value"]) == pytest.approx(score.main.mean())
    assert (line["seeds"], line["commit"], line["version"], line["n"]) == ("3", "abc123", "0.1", "6")
    assert len(lines) == sum(len(score.figures) for score in report_scores(fair))


def test_ranks_between_backbones_are_compared(tmp_path):
    synthetic(tmp_path / "a", trials=1, backbone="heads", sweep="a")
    other = {"erm": (0.9, 0.75), "rwg": (0.85, 0.5), "group-dro": (0.86, 0.3)}
    synthetic(tmp_path / "b", trials=1, backbone="small-cnn", sweep="b", methods=other)
    made = report(Records.read(tmp_path / "a", tmp_path / "b"), ["last"])
    table = next(table for table in section(made, "Ranks").tables if "backbone" in table.title)
    assert {"heads", "small-cnn"} <= set(table.blocks[0].columns)
    assert table.notes[0].startswith("small-cnn against heads: Spearman -")


def test_names_of_the_papers_are_theirs():
    assert set(NAMES) <= set(published().rows["method"].to_pylist())
    assert set(NAMES.values()) <= {*METHODS, "erm-plain"}  # the last is RLSbench's alone
    for kind in KINDS:
        for _, board in boards(kind, kind.protocols[-1]):
            ours = {name.rpartition("+")[2] for name in board.rows["method"].to_pylist()}
            assert len(ours & set(METHODS)) >= 3
    (sma,) = (board for _, board in boards(kind_of("uda@1()"), "uda"))
    assert set(sma.rows["method"].to_pylist()) == {"erm", "deepjdot", "dann", "cdan"}
    (rlsbench,) = (board for _, board in boards(kind_of("label-shift@1()"), "label-shift"))
    assert {"erm", "rw", "rs+dann", "rs+rw+dann", "cdan"} <= set(rlsbench.rows["method"].to_pylist())
    assert kind_of("canonical").name == "other tasks"


def test_the_command_line_writes_each_format(fair, tmp_path, capsys):
    (folder,) = fair.folders
    assert main(["report", str(folder), "--rule", "iid", "--format", "csv"]) == 0
    assert capsys.readouterr().out.startswith("kind,id,sweep,dataset,content_id")
    for name, start in (
        ("a.md", "# Report"),
        ("a.html", "<!doctype html>"),
        ("a.txt", "Report"),
    ):
        assert main(["report", str(folder), "--out", str(tmp_path / name)]) == 0
        assert (tmp_path / name).read_text(encoding="utf-8").startswith(start)
    assert main(["report", str(tmp_path)]) == 1
    assert "has no folder records" in capsys.readouterr().err


def test_the_examples_of_the_page_of_docs_run(fair):
    text = (ROOT / "docs" / "report.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    known = {"folder": fair.folders[0]}
    exec(compile(block, "report.md", "exec"), known)
    assert known["result"].sections[3].title.startswith("Group fairness")
