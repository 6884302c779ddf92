"""The checker: verdicts, the room that rounding leaves, what it finds in the papers, planted errors."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftdata.bench.papers import published, published_tables
from tests.paths import ROOT

sys.path.insert(0, str(ROOT / "scripts"))

from check_published import Finding, check
from check_published.__main__ import main
from check_published.cells import Book
from check_published.judging import box, judge, std_span
from check_published.rules import spread_of_mean

REPORT = check(published().rows)


def results(rows: list[tuple[str, str, str]], **same: str) -> pa.Table:
    """(row, column, printed) as results."""
    schema = published("sma", 4).rows.schema
    usual = {
        "paper": "own",
        "table": "1",
        "part": "",
        "metric": "accuracy",
        "unit": "%",
        "section": "",
    } | same
    records = []
    for row, column, printed in rows:
        value, _, spread = printed.partition("±")
        number = {"value": float(value), "spread": float(spread) if spread else None, "printed": printed}
        records.append(usual | {"row": row, "column": column} | number)
    return pa.Table.from_pylist(records, schema)


def judged(printed: str, inputs: list[str], span=None, **more: str):
    sheet = Book(results([("r", str(n), text) for n, text in enumerate([printed, *inputs])]))("own", 1)
    cells = [sheet.get("r", str(n)) for n in range(len(inputs) + 1)]
    (finding,) = judge(cells[0], span or box(lambda x: float(x.mean())), cells[1:], "mean", **more)
    return finding


@pytest.mark.parametrize(
    ("printed", "inputs", "verdict"),
    [
        ("76.10", ["74.19", "78.01"], "reproduces"),
        ("67.15", ["66.09", "68.20"], "reproduces"),  # 67.145: either way to round a half
        ("67.14", ["66.09", "68.20"], "reproduces"),
        ("67.16", ["66.09", "68.20"], "inconsistent"),
        ("70.2", ["70.0", "70.2"], "within rounding"),  # 70.1; 70.05 and 70.25 would do
        ("70.3", ["70.0", "70.2"], "inconsistent"),
        ("3", ["2", "4"], "reproduces"),
        ("4", ["2", "4"], "inconsistent"),  # counts are exact
    ],
)
def test_verdicts(printed, inputs, verdict):
    assert judged(printed, inputs).verdict == verdict
    under = judged(printed, inputs, assumption="All count.")
    excluded = verdict == "inconsistent"  # without the assumption; with it, the finding depends on it
    assert (under.verdict, under.assumption) == (("depends", "All count.") if excluded else (verdict, ""))


VALUES = st.lists(st.integers(0, 9999).map(lambda number: number / 100), min_size=2, max_size=5)


@given(VALUES, st.sampled_from([0.005, 0.05, 0.5]))
def test_the_room_of_a_standard_deviation_holds_every_corner_and_no_more(values, half):
    halves = [half] * len(values)
    corners = [np.array(signs) * half + values for signs in itertools.product((-1, 1), repeat=len(values))]
    value, low, high = std_span(ddof=0)(values, halves)
    spreads = [float(corner.std()) for corner in corners]
    assert value == pytest.approx(np.std(values))
    assert high == pytest.approx(max(spreads))
    assert low <= min(spreads) + 1e-12
    assert low >= 0


@given(st.lists(st.lists(st.floats(0, 100), min_size=3, max_size=3), min_size=2, max_size=6))
def test_the_spread_of_a_mean_over_seeds_is_always_called_possible(accuracies):
    seeds = np.array(accuracies)  # domains x seeds
    of_parts, of_mean = seeds.std(axis=1), seeds.mean(axis=0).std()
    rows = [("r", f"d{n}", f"0.0±{spread:.6f}") for n, spread in enumerate(of_parts)]
    sheet = Book(results([*rows, ("r", "Avg", f"0.0±{of_mean:.6f}")]))("own", 1)
    parts = [sheet.spread("r", f"d{n}") for n in range(len(of_parts))]
    (finding,) = spread_of_mean(sheet.spread("r", "Avg"), parts, "domains")
    assert finding.verdict != "inconsistent"


def found(paper: str, table: str, place: str) -> list[Finding]:
    """The findings at a place of a paper."""
    of_table = [finding for finding in REPORT.findings if (finding.paper, finding.table) == (paper, table)]
    return [finding for finding in of_table if finding.place.endswith(place)]


def test_the_shipped_numbers_are_those_that_were_extracted():
    assert REPORT.problems == ()


@pytest.mark.parametrize(
    ("paper", "table", "place", "recomputed"),
    [
        ("sma", "1", "Multi-source benchmarks, Office-31, instances per source, min", "4,410"),
        ("sma", "7", "PLT_DOC, mean, CDAN", "DANN 43.00"),
        ("sma", "12", "PLT_DOC, mean, UniOT", "OSBP 39.75"),
        ("nico++", "2", "test S, Wi, O, Da, Deepall, Ova.", "0.063"),
        ("nico++", "5", "test A, Wi, Da, Di, Deepall, Ova.", "0.347"),
        ("nico++", "9", "test R, I, O, Di, Deepall, R", "autumn, dark, grass, sand, water, winter"),
        ("nico++", "11", "lizard, Total", "601"),
        ("domainbed-v2", "15", "PACS, MoCo-v3 ViT-B/16, SagNet, Avg", "85.43"),
        ("domainbed-v2", "5", "MoCo-v2 ResNet-50, SagNet, OfficeHome", "61.20"),
        ("domainbed-v2", "6", "TerraInc, ViT-B/16, MoCo-v3, FT, L38", "VLCS"),
        ("domainbed-v2", "21", "NICO++, ResNet-50 trained from scratch, SWAD, Avg", "Mixup 46.65"),
        ("rlsbench", "5", "RS+RW, Avg, NoisyStudent", "69.7 to 69.6"),
        ("cns-bench", "1", "DeiT-3, patch", "14, 16"),
        ("cns-bench", "1", "DINOv2, patch", "14"),
    ],
)
def test_known_inconsistencies_are_found(paper, table, place, recomputed):
    matches = [finding for finding in found(paper, table, place) if finding.verdict == "inconsistent"]
    assert any(recomputed in finding.recomputed for finding in matches), matches


@pytest.mark.parametrize(
    ("paper", "table", "place", "recomputed"),
    [
        ("sma", "2", "SMA_PLT_DOC, stylized images", "42700"),
        ("sma", "text", "scenarios of OfficeHome, figure 9, stated", "12"),
        ("nico++", "1", "concept shift, min, DomainNet", "-0.055"),
        ("nico++", "2", "test S, Wi, O, Da, Deepall, Ova.", "77.549"),
        ("nico++", "4", "NICO++, SagNet, seed spread", "DomainNet 0.23"),
        ("nico++", "5", "test A, Wi, Da, Di, StableNet, Ova.", "72.272"),
        ("nico++", "7", "test S, Wi, O, Da, Deepall, Std", "3.557"),
        ("nico++", "8", "Rand., Deepall", "flexible DG"),
        ("nico++", "text", "images, thousands, stated", "218.62"),
        ("domainbed-v2", "14", "NICO++, MoCo-v2 ResNet-50, ERM, autumn", "table 8"),
        ("domainbed-v2", "19", "NICO++, MoCo-v3 ViT-B/16, ERM, autumn", "table 8"),
        ("domainbed-v2", "text", "examples of DomainNet, stated", "596006"),
        ("rlsbench", "2", "RW, Civilcomments, Source", "PseudoLabel with RW 89.30"),
        ("rlsbench", "5", "RS+RW, FMoW, BN-adapt", "1 of 6 methods gain"),
    ],
)
def test_what_depends_on_an_assumption_names_it(paper, table, place, recomputed):
    (match,) = [finding for finding in found(paper, table, place) if finding.verdict == "depends"]
    assert recomputed in match.recomputed
    assert match.assumption.endswith(".")
    assert match in REPORT.depends[match.assumption]


@pytest.mark.parametrize("table", published_tables(), ids=lambda table: f"{table.paper}-{table.table}")
def test_a_planted_error_is_found_in_every_table(table):
    rows = published(table.paper, table.table).rows.to_pylist()
    numbers = [place for place, row in enumerate(rows) if row["value"] is not None]
    place = numbers[len(numbers) // 2]
    for changes in ({"value": rows[place]["value"] + 1}, _moved(rows[place]), {"row": "another"}):
        damaged = pa.Table.from_pylist(
            [*rows[:place], rows[place] | changes, *rows[place + 1 :]], published("sma").rows.schema
        )
        problems = check(damaged).problems
        assert any(problem.startswith(f"{table.paper}, ") for problem in problems), changes


def _moved(row: dict[str, object]) -> dict[str, object]:
    """Another number, printed and stored alike."""
    value, sign, spread = str(row["printed"]).partition("±")
    return {"printed": f"9{value.lstrip('+-')}{sign}{spread}", "value": float(f"9{value.lstrip('+-')}")}


ARITHMETIC = [
    ("sma", "5"),
    ("nico++", "6"),
    ("nico++", "10"),
    ("cns-bench", "5"),
    ("domainbed-v2", "16"),
    ("rlsbench", "4"),
]


@pytest.mark.parametrize(("paper", "table"), ARITHMETIC)
def test_arithmetic_alone_finds_an_error_in_any_cell(paper, table):
    rows = published(paper, table).rows
    known = {(finding.place, finding.check) for finding in check(rows).inconsistent}
    listed = rows.to_pylist()
    for place in range(0, len(listed), max(1, len(listed) // 8)):
        damaged = pa.Table.from_pylist(
            [*listed[:place], listed[place] | _moved(listed[place]), *listed[place + 1 :]], rows.schema
        )
        now = {(finding.place, finding.check) for finding in check(damaged).inconsistent}
        assert now - known, listed[place]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("paper", "table", "row", "column", "part", "printed", "verdict"),
    [
        ("sma", "2", "SMA_PLT_DOC", "stylized images", "", "42700", "reproduces"),
        ("sma", "2", "SMA_APL", "stylized images", "", "204101", "depends"),
        ("nico++", "1", "concept shift, min", "DomainNet", "", "0.347±0.055", "reproduces"),
        ("nico++", "1", "concept shift, min", "PACS", "", "0.234±0.023", "depends"),
        ("nico++", "4", "SagNet", "seed spread", "NICO++", "0.01", "reproduces"),
        ("nico++", "4", "SWAD", "seed spread", "NICO++", "0.95", "depends"),
        ("nico++", "7", "Deepall", "Std", "test S, Wi, O, Da", "3.56", "reproduces"),
        ("nico++", "9", "Deepall", "Ova.", "test R, I, O, Di", "72.99", "depends"),
        ("nico++", "text", "images, thousands", "stated", "", "218.6", "reproduces"),
        ("domainbed-v2", "text", "examples of OfficeHome", "stated", "", "15913", "reproduces"),
        ("domainbed-v2", "text", "examples of PACS", "stated", "", "9981", "depends"),
        ("rlsbench", "2", "Civilcomments", "Source", "RW", "89.4", "reproduces"),
        ("rlsbench", "3", "Retiring Adults", "CDANN", "RS+RW", "70.4", "depends"),
    ],
)
def test_another_digit_changes_what_depends(paper, table, row, column, part, printed, verdict):
    place = {"paper": paper, "table": table, "part": part, "row": row, "column": column}

    def verdicts(report):
        chosen = [finding for finding in report.findings if vars(finding).items() >= place.items()]
        return {(finding.check, finding.verdict) for finding in chosen}

    other = {"printed": printed, "value": float(printed.partition("±")[0])}
    rows = [row | other if row.items() >= place.items() else row for row in published()]
    changed = verdicts(check(pa.Table.from_pylist(rows, published("sma").rows.schema))) - verdicts(REPORT)
    assert verdict in {new for _, new in changed}


def test_the_command_prints_findings_and_compares_the_page(capsys):
    assert main([]) == 0
    assert "SagNet, OfficeHome" in capsys.readouterr().out
