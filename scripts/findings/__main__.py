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
from verdicts import OPEN, VERDICTS, Floats, Tested, decided, interval, tested

from shiftdata.tables import markdown

PAGE = RECORDS.parent / "findings.md"
BEGIN, END = "<!-- written by scripts/findings -->", "<!-- end -->"


@dataclass(frozen=True)
class Line:
    """A claim as a line of the page; `real` and `embedded` count its tasks."""

    paper: str
    text: str
    contrast: str
    on_real: str
    on_embedded: str
    interval: str
    real: int
    embedded: int
    tested: Tested

    @property
    def cells(self) -> list[str]:
        p = self.tested.p
        adjusted = "-" if math.isnan(p) else f"{p:.3f}" if p >= 0.001 else "<.001"
        means = [self.contrast, self.on_real, self.on_embedded, self.interval]
        return [self.text, *means, adjusted, self.tested.verdict]


def lines() -> list[Line]:
    """Return a line for every claim, with its own level."""
    return [_line(claim, evidence(claim)) for claim in CLAIMS] + _sights()


def adjusted(family: Sequence[Line]) -> list[Line]:
    """Return lines with the verdicts that stand for all of them at once."""
    verdicts = decided([line.tested for line in family])
    return [replace(line, tested=verdict) for line, verdict in zip(family, verdicts, strict=True)]


def _line(claim: Claim, found: Evidence) -> Line:
    real, embedded = found.part(embedded=False), found.part(embedded=True)
    return Line(
        paper=claim.paper,
        text=claim.text,
        contrast=_contrast(claim),
        on_real=_mean(real),
        on_embedded=_mean(embedded),
        interval=interval(found.differences),
        real=len(real),
        embedded=len(embedded),
        tested=tested(found.differences, claim.kind, MARGINS[claim.paper]),
    )


def _sights() -> list[Line]:
    found = []
    for sight in SIGHTS:
        if (right := rights().get(sight.shown)) is None:
            continue
        result = seen(sight, right)
        points = f"{result.points} ({result.pictures})"
        found.append(
            Line(
                "CNS-Bench",
                f"{sight.text}, {SHOWN[sight.shown]}",
                result.contrast,
                points,
                "-",
                result.interval,
                1,
                0,
                result.tested,
            )
        )
    return found


def _mean(part: Floats) -> str:
    return f"{part.mean():+.1f} ({len(part)})" if len(part) else "-"


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
    families = {paper: adjusted([line for line in found if line.paper == paper]) for paper in MARGINS}
    header = ["paper", "claims", *VERDICTS, "tasks that are real"]
    counts = [_counts(paper, family) for paper, family in families.items()]
    counts.append(_counts("all", [line for family in families.values() for line in family]))
    parts = [
        "## Verdicts",
        "",
        markdown(header, counts),
        "",
        *_decided(families),
        "",
        _disagreement(found),
        "",
    ]
    header = ["claim", "contrast", "real", "embedded", "95 % interval", "p", "verdict"]
    for paper, family in families.items():
        parts += [f"<details><summary>{paper}: {len(family)} claims</summary>", ""]
        parts += [_table(header, [line.cells for line in family]), "", "</details>", ""]
    header = ["folder", "what", "runs done", "core hours", "datasets", "commit"]
    return "\n".join([*parts, "## What was run", "", _table(header, runs()), ""])


def _counts(name: str, family: Sequence[Line]) -> list[str]:
    """Return a line on how many claims have each verdict, and on how much of their evidence is real."""
    verdicts = [line.tested.verdict for line in family]
    real, every = sum(line.real for line in family), sum(line.real + line.embedded for line in family)
    return [name, *map(str, (len(family), *map(verdicts.count, VERDICTS))), f"{real:,} of {every:,}"]


def _decided(families: Mapping[str, Sequence[Line]]) -> list[str]:
    """Return a line for each verdict, with the claims that have it."""
    body = []
    for verdict in VERDICTS[:-1]:
        claims = [
            f"{line.text} ({paper})"
            for paper, family in families.items()
            for line in family
            if line.tested.verdict == verdict
        ]
        body.append(f"- **{verdict}**: {'; '.join(dict.fromkeys(claims)) or 'none'}.")
    return body


def _disagreement(found: Sequence[Line]) -> str:
    both = [line for line in found if line.real and line.embedded]
    opposed = sum(line.on_real[0] != line.on_embedded[0] for line in both)
    stand = sum(line.tested.verdict != OPEN for line in adjusted(found))
    return (
        f"Of {len(both)} claims with both kinds of data, the means differ in sign in {opposed}. "
        f"Adjusted for all {len(found)} claims of the page at once, {stand} verdicts would stand."
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
