"""What differs between two sweeps: studies, numbers, selections, versions."""

from __future__ import annotations

import pytest

from shiftdata.bench.reporting import difference
from shiftdata.cli.app import main
from tests.bench.synthetic import METHODS, made_task, synthetic

TASKS = {"group-fairness k=4 mu=0.5": made_task()}


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    return synthetic(tmp_path_factory.mktemp("before"), tasks=TASKS)


def section(made, title):
    return next(one for one in made.sections if one.title == title)


def lines(made, title):
    return [row for table in section(made, title).tables for row, *_ in table.blocks[0].body]


def test_a_sweep_does_not_differ_from_itself(before):
    made = difference(before, before)
    assert all(not one.tables for one in made.sections)
    assert "3 studies are in both, of 3 in A and 3 in B." in section(made, "Studies").notes


def test_what_moved_and_what_was_chosen_instead(before, tmp_path):
    skills = {"erm": METHODS["erm"], "rwg": (0.2, 0.2), "jtt": (0.9, 0.8)}
    after = synthetic(tmp_path, tasks=TASKS, methods=skills, commit="def456", steps=(10, 30))
    made = difference(before, after, ["iid"])
    studies = section(made, "Studies").tables[0].blocks[0].body
    assert [(row.partition(" ")[0], where) for row, where in studies] == [
        ("group-dro", "A alone"),
        ("jtt", "B alone"),
    ]
    assert any(row.startswith("rwg on") for row in lines(made, "Numbers that moved"))
    assert lines(made, "Versions that differ") == ["commit"]
    chosen = section(made, "Selections that changed").tables[0].blocks[0].body
    rwg = next(cells for row, *cells in chosen if row.startswith("rwg"))
    assert "steps" in rwg[1]
    assert "30" in rwg[2]


def test_a_move_within_the_spread_is_not_listed(before, tmp_path):
    from shiftdata.bench.reporting.scores import scores_of, standard_error

    after = synthetic(tmp_path, tasks=TASKS, commit="def456")  # the same skills, other draws
    listed = lines(difference(before, after, ["iid"]), "Numbers that moved")
    expected = []
    for one, two in zip(*(scores_of(of, "iid")[0] for of in (before, after)), strict=True):
        spread = (standard_error(one.main) ** 2 + standard_error(two.main) ** 2) ** 0.5
        if abs(one.main.mean() - two.main.mean()) > spread:
            expected.append(one.method)
    assert [row.partition(" ")[0] for row in listed] == expected
    assert len(expected) < 3


def test_other_rows_of_one_name_are_said(before, tmp_path):
    after = synthetic(tmp_path, tasks=TASKS, content_id="d" * 64)
    (table,) = section(difference(before, after), "Studies").tables
    assert len(table.blocks[0].body) == 3
    assert table.blocks[0].body[0][1].startswith("both, of other data")


def test_the_command_line_ends_well_whatever_differs(before, tmp_path, capsys):
    synthetic(tmp_path, tasks=TASKS, methods={"jtt": (0.9, 0.8)})
    assert main(["report", "diff", str(before.folders[0]), str(tmp_path)]) == 0
    assert "alone" in capsys.readouterr().out
    assert main(["report", "diff", str(tmp_path)]) == 1
    assert "diff compares two folders" in capsys.readouterr().err
