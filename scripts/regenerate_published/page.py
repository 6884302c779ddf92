"""Render `docs/published.md`: what reproduces, what does not, and what each finding would change.

    python scripts/regenerate_published/page.py           # write the page
    python scripts/regenerate_published/page.py --check   # exit 1 if it is not what the numbers give

Counts, lists and effects are computed from the shipped numbers; the text around them is in `page.md.jinja`.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import jinja2
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parent.parent))

from check_published import VERDICTS, Finding, check

from shiftdata.bench.papers import PAPERS, Ranking, Results, citation, published, published_tables, ranking

HERE = Path(__file__).parent
PAGE = HERE.parent.parent / "docs" / "published.md"

DATASETS = ["PACS", "VLCS", "OfficeHome", "NICO++", "DomainNet"]
V2, V3 = "MoCo-v2 ResNet-50", "MoCo-v3 ViT-B/16"
SCRATCH = "ResNet-50 trained from scratch"


def render() -> str:
    """The page."""
    report = check(published().rows)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.md.jinja").render(
        papers={paper: citation(paper) for paper in PAPERS},
        tables=published_tables(),
        verdicts=VERDICTS,
        report=report,
        kinds=_kinds(report.findings),
        by_paper={paper: [one for one in report.inconsistent if one.paper == paper] for paper in PAPERS},
        effects=_effects() | {"overall": _overall(report.findings)},
        kind=_kind,
        numbers=len(published()),
        left_out=sum(len(one.left_out) for one in published_tables()),
    )


def _kinds(findings: tuple[Finding, ...]) -> list[tuple[str, str, list[int]]]:
    """How many findings of each kind of check have each verdict."""
    counted = Counter((one.paper, _kind(one.check), one.verdict) for one in findings)
    kinds = dict.fromkeys((paper, kind) for paper, kind, _ in counted)
    return [(paper, kind, [counted[paper, kind, verdict] for verdict in VERDICTS]) for paper, kind in kinds]


def _kind(check_name: str) -> str:
    """A check without the place that it names."""
    for start in ("as in ", "spread as in "):
        if check_name.startswith(start):
            return "the same number in two places"
    return check_name.partition(":")[0] if check_name.startswith("split") else check_name


def _overall(findings: tuple[Finding, ...]) -> str:
    """How many overall accuracies of NICO++ fit the domain sizes of table 10."""
    verdicts = [one.verdict for one in findings if "weighted by their images" in one.check]
    return f"{sum(verdict != 'depends' for verdict in verdicts)} of {len(verdicts)}"


def _effects() -> dict[str, str]:
    """What the findings in leaderboards would change."""
    v2, v3 = (_summary(part) for part in (V2, V3))
    mended = _with(v2, "SagNet", "OfficeHome", "61.2±1.0")
    scratch = published("domainbed-v2", 20).where(column="Avg") + published("domainbed-v2", 21).where(
        column="Avg"
    )
    before, after = ranking(v2, v3), ranking(mended, v3)
    from_scratch, mended_scratch = ranking(v2, scratch), ranking(mended, scratch)
    tables = ranking(scratch)
    return {
        "sagnet_before": _standing(before, "set 1", "SagNet"),
        "sagnet_after": _standing(after, "set 1", "SagNet"),
        "passed": " and ".join(
            f"{name} {_rank(before, 'set 1', name):g} to {_rank(after, 'set 1', name):g}"
            for name in ("IRM", "Fishr")
        ),
        "v2_v3": _agreement(before, after),
        "v2_scratch": _agreement(from_scratch, mended_scratch),
        "scratch_first": ", ".join(_standing(tables, "set 1", name) for name in ("Mixup", "SWAD")),
    }


def _summary(part: str) -> Results:
    return published("domainbed-v2", 5, part=part, column=DATASETS)


def _with(results: Results, method: str, column: str, printed: str) -> Results:
    """The same results with another number at one place."""
    value, spread = (float(one) for one in printed.split("±"))
    rows = [
        row | {"printed": printed, "value": value, "spread": spread}
        if (row["method"], row["column"]) == (method, column)
        else row
        for row in results
    ]
    return Results(pa.Table.from_pylist(rows, results.rows.schema))


def _rank(board: Ranking, name: str, method: str) -> float:
    return next(one.rank for one in board.standings[name] if one.method == method)


def _standing(board: Ranking, name: str, method: str) -> str:
    one = next(one for one in board.standings[name] if one.method == method)
    return f"{method} {one.value:.2f} (rank {one.rank:g})"


def _agreement(before: Ranking, after: Ranking) -> str:
    first, second = (board.agreement["set 2"].spearman for board in (before, after))
    return f"{first:.3f} to {second:.3f}"


def main() -> int:
    page = render()
    if "--check" in sys.argv[1:]:
        same = PAGE.is_file() and PAGE.read_text(encoding="utf-8") == page
        print("up to date" if same else f"{PAGE.name} is not what the numbers give: render it again")
        return 0 if same else 1
    PAGE.write_text(page, encoding="utf-8")
    print(PAGE.name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
