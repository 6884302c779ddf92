"""What a report and a board begin with: who is ahead, and whether that may be noise."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from shiftdata.bench.leaderboard import leaderboard
from shiftdata.bench.leaderboard.judging import Pairs
from shiftdata.bench.reporting import report
from tests.bench.submissions import fair, part, submitted, written
from tests.bench.synthetic import made_task, synthetic
from tests.evaluation.protocols.made import metadata


@pytest.fixture(scope="module")
def of():
    return metadata(4, 4, 60)


def first_lines(records, rules, **options):
    made = report(records, rules, **options)
    (table,) = made.sections[0].tables
    return made, [[row, *cells] for row, *cells in table.blocks[0].body]


def test_a_clear_lead_is_more_than_noise_and_says_over_whom(of, tmp_path):
    tasks = {words: made_task(words, of) for words in (f"group-fairness k={k} mu=0.5" for k in (2, 4))}
    skills = {"erm": (0.9, 0.2), "rwg": (0.9, 0.5), "suby": (0.95, 0.95)}
    records = synthetic(tmp_path, tasks=tasks, methods=skills, trials=1, seeds=6)
    made, lines = first_lines(records, ["last"])
    means = {
        method: np.mean(
            [row["value"] for row in made.numbers if row["method"] == method and row["figure"] == "worst"]
        )
        for method in skills
    }
    assert [row[:4] for row in lines] == [
        ["last", "suby", f"{means['suby']:.1f}", behind] for behind in ("rwg", "erm")
    ]
    for _, _, _, behind, lead, *_, verdict in lines:
        assert lead == f"{means['suby'] - means[behind]:+.1f}"
        assert verdict in ("more than noise", "no difference shown")
    (answer,) = made.sections[0].notes
    assert "selected by last) suby is ahead: worst group " in answer
    assert f"{lines[0][4]} points over rwg ({lines[0][-1]}: 95 % interval {lines[0][5]}, p " in answer


@pytest.mark.parametrize(("best", "said"), [(0.95, "more than noise"), (0.62, "no difference shown")])
def test_what_is_said_is_what_the_comparisons_say(of, tmp_path, best, said):
    tasks = {"group-fairness k=4 mu=0.5": made_task("group-fairness k=4 mu=0.5", of)}
    skills = {"erm": (0.6, 0.6), "rwg": (best, best)}
    records = synthetic(tmp_path, tasks=tasks, methods=skills, trials=1, seeds=6)
    made, (line,) = first_lines(records, ["last"])
    (compared,) = next(section for section in made.sections if section.title == "Paired comparisons").tables
    verdict = next(cells[2] for row, *cells in compared.blocks[0].body if row == "rwg")
    assert (verdict == "higher") == (said == "more than noise")
    assert (line[1], line[3], line[-1]) == ("rwg", "erm", said)


def test_the_baseline_may_be_ahead_and_one_seed_proves_nothing(of, tmp_path):
    tasks = {"group-fairness k=4 mu=0.5": made_task("group-fairness k=4 mu=0.5", of)}
    records = synthetic(tmp_path, tasks=tasks, methods={"rwg": (0.2, 0.2), "erm": (1, 1)}, trials=1, seeds=1)
    made, (line,) = first_lines(records, ["last"])
    assert line[1:] == ["erm", "100.0", "rwg", line[4], "-", "-", "no difference shown"]
    assert made.sections[0].notes[0].endswith(f"{line[4]} points over rwg (not tested).")


def test_a_method_that_lacks_tasks_is_not_ahead_and_one_alone_has_no_line(of, tmp_path):
    words = ["group-fairness k=2 mu=0.5", "group-fairness k=4 mu=0.5"]
    tasks = {words: made_task(words, of) for words in words}
    skills = {"erm": (0.6, 0.6), "rwg": (0.8, 0.8)}
    synthetic(tmp_path / "both", tasks=tasks, methods=skills, trials=1)
    records = synthetic(
        tmp_path / "alone", tasks={words[0]: tasks[words[0]]}, methods={"suby": (1, 1)}, trials=1
    )
    assert report(records, ["last"]).sections[0].title == "What was run"
    both = type(records).read(tmp_path / "both", tmp_path / "alone")
    _, lines = first_lines(both, ["last"])
    assert {line[1] for line in lines} == {"rwg"}


@pytest.mark.parametrize(
    ("values", "less", "said"),
    [
        (
            [0.8, 0.7],
            False,
            "ahead of m1 by 10.0 points (95 % interval 3.2 to 16.8; paired test over 300 origins, p",
        ),
        ([0.8, 0.2, 0.1], False, "p <0.001) and of all others."),
        ([0.8, 0.79, 0.2], False, "; no difference shown from m1 (p 0."),
        ([0.8, 0.8, 0.8], False, "from m1 (p 1.000), m2 (p 1.000), paired tests over 300 origins."),
        ([0.8] * 6, False, "from m1 (p 1.000), m2 (p 1.000), m3 (p 1.000) and 2 more, paired tests over"),
        ([0.2, 0.8], True, "ahead of m1 by 60.0 points"),
        ([0.8, None], False, "and alone."),
        ([0.8], False, "and alone."),
    ],
)
def test_a_board_says_what_the_paired_tests_say(tiny, tmp_path, monkeypatch, values, less, said):
    task = fair(tiny)
    written(tmp_path, "mine.parquet", submitted(task, [part(task, "test", 0.5)]))
    (table,) = leaderboard(tmp_path, data=tiny.parent).tables
    (entry,) = table.entries
    lines = []
    for at, value in enumerate(values):
        right = (np.random.default_rng(at * (len(set(values)) > 1)).permutation(300) < 300 * (value or 0)) * 1
        pairs = Pairs((right - right.mean()) / 300, right, 0, 1, 300.0, 300)
        score = replace(entry.scores["worst"], value=math.nan if value is None else value, pairs=pairs)
        card = replace(entry.card, method=f"m{at}")
        lines.append((at + 1.0, replace(entry, file=f"{at}", card=card, scores={"worst": score})))
    monkeypatch.setattr("shiftdata.bench.leaderboard.board.LESS", ("worst",) if less else ())
    ahead = replace(table, lines=tuple(lines)).ahead.replace("\u00a0", " ")
    assert said in ahead
