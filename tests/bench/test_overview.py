"""What a report and a board begin with: who is ahead, and whether that may be noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from shiftdata.bench.leaderboard import leaderboard
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
    made, (line,) = first_lines(records, ["last"])
    means = {
        method: np.mean(
            [row["value"] for row in made.numbers if row["method"] == method and row["figure"] == "worst"]
        )
        for method in skills
    }
    assert line[:3] == ["last", "suby", f"{means['suby']:.1f}"]
    assert line[3].startswith(("more than noise: +", "may be noise: +"))
    assert line[3].endswith("over rwg")
    assert f"{means['suby'] - means['rwg']:+.1f} (" in line[3]
    assert f"{means['suby'] - means['erm']:+.1f} (" in line[4]


@pytest.mark.parametrize(("best", "said"), [(0.95, "more than noise"), (0.62, "may be noise")])
def test_what_is_said_is_what_the_comparisons_say(of, tmp_path, best, said):
    tasks = {"group-fairness k=4 mu=0.5": made_task("group-fairness k=4 mu=0.5", of)}
    skills = {"erm": (0.6, 0.6), "rwg": (best, best)}
    records = synthetic(tmp_path, tasks=tasks, methods=skills, trials=1, seeds=6)
    made, (line,) = first_lines(records, ["last"])
    (compared,) = next(section for section in made.sections if section.title == "Paired comparisons").tables
    verdict = next(cells[2] for row, *cells in compared.blocks[0].body if row == "rwg")
    assert (verdict == "higher") == (said == "more than noise")
    assert line[1] == "rwg"
    assert line[4].startswith(said)


def test_the_baseline_may_be_ahead_and_one_seed_proves_nothing(of, tmp_path):
    tasks = {"group-fairness k=4 mu=0.5": made_task("group-fairness k=4 mu=0.5", of)}
    records = synthetic(tmp_path, tasks=tasks, methods={"rwg": (0.2, 0.2), "erm": (1, 1)}, trials=1, seeds=1)
    _, (line,) = first_lines(records, ["last"])
    assert line[1:] == ["erm", "100.0", line[3], "it is the baseline"]
    assert line[3].startswith("may be noise: +")
    assert " to " not in line[3]


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
    _, (line,) = first_lines(both, ["last"])
    assert line[1] == "rwg"


@pytest.mark.parametrize(
    ("values", "less", "said"),
    [
        ([0.8, 0.7], False, "of its differences from all others, paired by origin, exclude 0."),
        ([0.8, 0.75, 0.2], False, "of its differences from m1, paired by origin, include 0: who is"),
        ([0.8, 0.8, 0.75], False, "from m1, m2, paired by origin, include 0: who is better is open."),
        ([0.8] * 6, False, "from m1, m2, m3 and 2 more, paired by origin, include 0: who is better is open."),
        ([0.1, 0.15, 0.3], True, "from m1, paired by origin, include 0: who is better is open."),
        ([0.8, None], False, "from m1, paired by origin, include 0: who is better is open."),
        ([0.8], False, "and alone."),
    ],
)
def test_a_board_says_whose_differences_leave_it_open(tiny, tmp_path, monkeypatch, values, less, said):
    """Intervals of the difference reach .06 to either side: 2 errors of .03, from 9 origins moved by .01."""
    task = fair(tiny)
    written(tmp_path, "mine.parquet", submitted(task, [part(task, "test", 0.5)]))
    (table,) = leaderboard(tmp_path, data=tiny.parent).tables
    (entry,) = table.entries
    lines = []
    for at, value in enumerate(values):
        moved = np.full(9, 0.01) * (at > 0) if value is not None else None
        score = replace(entry.scores["worst"], value=value or 0.5, influence=moved, reach=2.0)
        card = replace(entry.card, method=f"m{at}")
        lines.append((at + 1.0, replace(entry, card=card, scores={"worst": score})))
    monkeypatch.setattr("shiftdata.bench.leaderboard.board.LESS", ("worst",) if less else ())
    assert said in replace(table, lines=tuple(lines)).ahead
