"""The tables of docs/findings.md, from the records in docs/findings.

python scripts/findings                 print them
python scripts/findings --write         write them to docs/findings.md
python scripts/findings --pictures all/lite0/0=FOLDER clothes/wide/0=FOLDER ...
                                        keep which pictures saved predictions have right
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from claims import CLAIMS, MARGINS, SHOWN, SIGHTS, Claim
from evidence import RECORDS, Evidence, evidence, records
from pictures import keep, rights, seen
from verdicts import FAILS, HOLDS, OPEN, UNTESTED, VERDICTS, Floats, Tested, decided, interval, tested

from shiftdata.tables import markdown

PAGE = RECORDS.parent / "findings.md"
KINDS = ("real", "embedded")
BEGIN, END = "<!-- written by scripts/findings -->", "<!-- end -->"


@dataclass(frozen=True)
class Side:
    """A claim on one kind of data: points with the number of replicates, interval, verdict."""

    points: str = "-"
    interval: str = "-"
    replicates: int = 0
    tested: Tested = UNTESTED

    @property
    def cells(self) -> list[str]:
        p = self.tested.p
        adjusted = "-" if math.isnan(p) else f"{p:.3f}" if p >= 0.001 else "<.001"
        return [self.points, self.interval, adjusted, self.tested.verdict if self.replicates else "-"]


@dataclass(frozen=True)
class Line:
    """A claim as a line of the page, on each kind of data."""

    paper: str
    text: str
    contrast: str
    sides: Mapping[str, Side]

    @property
    def cells(self) -> list[str]:
        return [self.text, self.contrast, *(cell for kind in KINDS for cell in self.sides[kind].cells)]


def lines() -> list[Line]:
    """Return a line for every claim; the verdicts of a paper's claims on a kind of data are one family."""
    found = [_line(claim, evidence(claim)) for claim in CLAIMS] + _sights()
    return [line for paper in MARGINS for line in _adjusted([line for line in found if line.paper == paper])]


def _adjusted(family: Sequence[Line]) -> list[Line]:
    """Return lines with the verdicts that stand for all of them at once."""
    for kind in KINDS:
        verdicts = decided([line.sides[kind].tested for line in family])
        family = [
            replace(line, sides={**line.sides, kind: replace(line.sides[kind], tested=verdict)})
            for line, verdict in zip(family, verdicts, strict=True)
        ]
    return list(family)


def _line(claim: Claim, found: Evidence) -> Line:
    sides = {kind: _side(claim, found.part(kind == "embedded")) for kind in KINDS}
    return Line(claim.paper, claim.text, _contrast(claim), sides)


def _side(claim: Claim, part: Floats) -> Side:
    if not len(part):
        return Side()
    result = tested(part, claim.kind, MARGINS[claim.paper])
    return Side(f"{part.mean():+.1f} ({len(part)})", interval(part), len(part), result)


def _sights() -> list[Line]:
    found = []
    for sight in SIGHTS:
        if (right := rights().get(sight.shown)) is None:
            continue
        result = seen(sight, right)
        real = Side(f"{result.points} ({result.pictures})", result.interval, result.pictures, result.tested)
        text = f"{sight.text}, {SHOWN[sight.shown]}"
        found.append(Line("CNS-Bench", text, result.contrast, {"real": real, "embedded": Side()}))
    return found


def _contrast(claim: Claim) -> str:
    if claim.over == "leakage":
        return "its gain for one - for two"
    if claim.over:
        return f"{claim.over} - {claim.rule}"
    more, less = (
        f"mean({names.replace(' ', ', ')})" if " " in names else names for names in (claim.more, claim.less)
    )
    where = " or ".join(claim.where.split())
    ends = {", ": where, " beyond ": claim.beyond, ", by ": claim.rule if claim.rule == "oracle" else ""}
    return f"{more} - {less}" + "".join(f"{start}{text}" for start, text in ends.items() if text)


def runs() -> list[list[str]]:
    """Return a line on each sweep that is recorded."""
    body = []
    for folder in sorted(RECORDS.iterdir()):
        if not (folder / "records").is_dir():
            continue
        plan, of = json.loads((folder / "sweep.json").read_text(encoding="utf-8")), records(folder.name)
        hours = sum(seconds or 0 for seconds in of.column("processor_seconds")) / 3600
        ids = zip(of.column("dataset"), of.column("content_id"), strict=True)
        content = sorted({f"{name.partition('/')[0]} {content_id[:12]}" for name, content_id in ids})
        commits = ", ".join(sorted({commit[:8] for commit in of.column("commit")}))
        done = f"{of.column('status').count('done'):,} of {len(of):,}"
        body.append([f"`{folder.name}`", plan["about"], done, f"{hours:.2f}", ", ".join(content), commits])
    return body


def written() -> str:
    """Return all tables, in Markdown."""
    found = lines()
    of = {paper: [line for line in found if line.paper == paper] for paper in MARGINS}
    counts = [
        _counts(paper, kind, family) for kind in KINDS for paper, family in {**of, "all": found}.items()
    ]
    header = ["paper", "data", "claims", *VERDICTS, "inconclusive, share"]
    parts = ["## Verdicts", "", _table(header, [row for row in counts if row[2] != "0"]), ""]
    for kind in KINDS:
        parts += [f"On {kind} data:", "", *_decided(kind, found), ""]
    parts += [_disagreement(found), ""]
    columns = ["95 % interval", "p", "verdict"]
    header = ["claim", "contrast", "real", *columns, "embedded", *columns]
    for paper, family in of.items():
        parts += [f"<details><summary>{paper}: {len(family)} claims</summary>", ""]
        parts += [_table(header, [line.cells for line in family]), "", "</details>", ""]
    header = ["folder", "what", "runs done", "core hours", "datasets", "commit"]
    return "\n".join([*parts, "## What was run", "", _table(header, runs()), ""])


def _counts(name: str, kind: str, family: Sequence[Line]) -> list[str]:
    """Return a line on how many claims have each verdict on a kind of data."""
    verdicts = [side.tested.verdict for line in family if (side := line.sides[kind]).replicates]
    share = f"{100 * verdicts.count(OPEN) / max(1, len(verdicts)):.0f} %"
    return [name, kind, *map(str, (len(verdicts), *map(verdicts.count, VERDICTS))), share]


def _decided(kind: str, found: Sequence[Line]) -> list[str]:
    """Return a line for each verdict, with the claims that have it."""
    body = []
    for verdict in VERDICTS[:-1]:
        claims = [
            f"{line.text} ({line.paper})" for line in found if line.sides[kind].tested.verdict == verdict
        ]
        body.append(f"- **{verdict}**: {'; '.join(dict.fromkeys(claims)) or 'none'}.")
    return body


def _disagreement(found: Sequence[Line]) -> str:
    both = [
        pair
        for line in found
        if OPEN not in (pair := tuple(line.sides[kind].tested.verdict for kind in KINDS))
    ]
    alike = sum(real == embedded for real, embedded in both)
    opposite = sum({*pair} == {HOLDS, FAILS} for pair in both)
    return (
        f"{len(both)} claims have a verdict on both kinds of data: {alike} the same, "
        f"{opposite} opposite ones (holds on one, does not hold on the other)."
    )


def _table(header: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """Return a table whose first two columns are texts, which stand on the left."""
    return markdown(header, body).replace("--:", "---", 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--pictures", nargs="+", metavar="SHOWN/MODEL/SEED=FOLDER")
    given = parser.parse_args()
    if given.pictures:
        keep(given.pictures)
    text = written()
    if not given.write:
        print(text)
        return
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    main()
