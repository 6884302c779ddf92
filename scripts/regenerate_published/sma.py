"""The tables of Stylized Meta-Album (SMA)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from reading import Cell, Table, Text, cells_of, clean, name_of, said

CLOSED, OPEN = range(4, 9), range(9, 14)
BENCHMARKS = {
    "# of datasets": ("datasets", "datasets"),
    "# of sources or # of nuisance factors": ("sources", "sources"),
    "# of classes": ("classes", "classes"),
    "# of instances": ("instances", "images"),
    "min/max instances per class": ("instances per class", "images"),
    "min/max instances per group": ("instances per group", "images"),
    "min/max classes per source": ("classes per source", "classes"),
    "min/max instances per source": ("instances per source", "images"),
}


def tables(text: Text) -> Iterator[Table]:
    """Every table, and figure 12, which prints numbers."""
    styles = _styles(text)
    yield _benchmarks(text)
    yield _datasets(text)
    yield _selection(text)
    for number in (*CLOSED, *OPEN):
        yield _scenarios(text, number, styles)
    yield _subsampled(text)
    yield said(text, STATED)


STATED = [
    ("groups", r"the total number of groups is \$.*= ([\d,]+)\$", "groups", "count"),
    ("methods", r"involves testing (\d+) methods", "methods", "count"),
    ("runs to find hyper-parameters", r"we performed (\d+) runs to select", "runs", "count"),
    ("runs with them", r"followed by (\d+) additional runs", "runs", "count"),
    ("training sessions per dataset", r"this resulted in (\d+) training sessions", "runs", "count"),
    ("images of PLT_DOC", r"from PLT_DOC with ([\d,]+) images", "images", "count"),
    ("images of APL", r"to APL with ([\d,]+) images", "images", "count"),
    ("scenarios of OfficeHome, figure 9", r"SMA datasets, (\d+) for OfficeHome", "scenarios", "count"),
    ("scenarios of OfficeHome, section 3.2.2", r"OfficeHome \((\d+) scenarios\)", "scenarios", "count"),
    ("SEM reduction, closed set", r"corresponds to a (\d+)% reduction", "%", "SEM reduction"),
    ("SEM reduction, UniDA", r"and a (\d+)% reduction for UniDA", "%", "SEM reduction"),
    ("SEM ratio, closed set", r"ratio of ([\d.]+) in the closed-set", "1", "SEM ratio"),
    ("SEM ratio, UniDA", r"scenario and ([\d.]+) for UniDA", "1", "SEM ratio"),
    ("mean of BIRDS, closed set", r"from the easiest (\d+)% \(BIRDS\)", "%", "accuracy"),
    ("mean of PLT_DOC, closed set", r"challenging (\d+)% \(PLT_DOC\) in Closed", "%", "accuracy"),
    ("mean of BIRDS, UniDA", r"and from (\d+)% \(BIRDS\)", "%", "H-score"),
    ("mean of PLT_DOC, UniDA", r"\(BIRDS\) to (\d+)% \(PLT_DOC\) in UniDA", "%", "H-score"),
]


def _benchmarks(text: Text) -> Table:
    table = Table("1", "SMA beside other benchmarks: sizes", "1.1")
    rows = text.above(text.find("Table 1:"))
    header = cells_of(rows[0][1])
    kind = ""
    for line, row in rows[1:]:
        name, *cells = cells_of(row)
        if not any(cells):
            kind = name
            continue
        for column, cell in zip(header[1:], cells, strict=True):
            if column not in BENCHMARKS:
                continue  # ticks and crosses
            counted, unit = BENCHMARKS[column]
            ends = [part.strip() for part in cell.split("/")]
            columns = [f"{counted}, min", f"{counted}, max"] if len(ends) == 2 else [counted]
            table.add(ends, columns, Cell(kind, name_of(name), "", "count", "", unit, line))
    return table


def _datasets(text: Text) -> Table:
    table = Table("2", "The twelve datasets: classes and images", "2")
    rows = text.above(text.find("Table 2: Stylized Meta-Album"))
    units = ("classes", "images", "classes", "images")
    columns = ("content classes", "content images", "stylized classes", "stylized images")
    for line, row in rows[1:]:
        cells = cells_of(row)
        for column, unit, cell in zip(columns, units, cells[3:], strict=True):
            table.add([cell], [column], Cell("", cells[0], "", "count", "", unit, line))
    return table


def _selection(text: Text) -> Table:
    table = Table("3", "Worst-group accuracy of SUBG by the metric of model selection", "E.3", figure="8")
    rows = text.above(text.find("Table 3: Test worst-group"))
    columns = [name_of(cell) for cell in cells_of(rows[1][1])[2:]]
    dataset = ""
    for line, row in rows[2:]:
        name, k, *cells = cells_of(row)
        dataset = name or dataset
        table.add(
            cells, columns, Cell(dataset, f"K={k}", "", "worst-group accuracy", "", "%", line, "column")
        )
    return table


def _scenarios(text: Text, number: int, styles: tuple[str, ...]) -> Table:
    closed = number in CLOSED
    line = text.find(f"Table {number}: ")
    dataset = text.lines[line - 1].rsplit(" over ", 1)[1]
    metric = "accuracy" if closed else "H-score"
    setting = "closed-set" if closed else "universal"
    title = f"{metric} of {setting} domain adaptation on {dataset}, 25 scenarios"
    table = Table(str(number), title, "F.2.1" if closed else "F.2.2", figure="9a" if closed else "9b")
    rows = text.above(line)
    columns = [name_of(cell) for cell in cells_of(rows[0][1])[1:]]
    for at, row in rows[1:]:
        name, *cells = cells_of(row)
        scenario = _scenario(name_of(name).removeprefix(dataset).strip(), styles)
        table.add(cells, columns, Cell(dataset, scenario, "", metric, "", "%", at, "column"))
    table.facts["scenarios"] = str(len(rows) - 2)
    return table


def _scenario(name: str, styles: tuple[str, ...]) -> str:
    """The full names of source and target; the tables cut them."""
    if name == "mean":
        return name
    ends = re.split(r"→|\\rightarrow", name)
    return " → ".join(_style(end, styles) for end in ends)


def _style(cut: str, styles: tuple[str, ...]) -> str:
    start = cut.strip().rstrip(".").replace("_", " ")
    found = [style for style in styles if style.startswith(start)]
    return found[0] if len(found) == 1 else start


def _styles(text: Text) -> tuple[str, ...]:
    start = text.find("Following are the 20 categories")
    names = []
    for line in text.lines[start:]:
        if line.startswith("- "):
            names.append(line[2:].strip())
        elif names and line.strip():
            break
    return tuple(names)


def _subsampled(text: Text) -> Table:
    table = Table("figure 12", "A training set of SMA_BRD for K = 3 and mu = 10 %", "E.1", figure="12")
    rows = text.above(text.find("Figure 12: Subsampled"))
    columns = [name_of(cell) for cell in cells_of(rows[1][1])[1:]]
    for line, row in rows[2:]:
        name, *cells = cells_of(row)
        style = re.sub(r"^Z_\d\s*", "", name_of(name))
        table.add([clean(cell) for cell in cells], columns, Cell("", style, "", "images", "", "images", line))
    return table
