"""The tables of RLSbench."""

from __future__ import annotations

import re
from collections.abc import Iterator

from reading import Cell, LeftOut, Table, Text, cells_of, name_of, said

CORRECTIONS = ("None", "RW", "RS", "RS+RW")
#: Which of the two laws a table's alpha is of: Dir(alpha K p), not the Dir(alpha p) of the text.
CODE = ", alpha as the code draws it"


def tables(text: Text) -> Iterator[Table]:
    """Every table."""
    yield _targets(text)
    yield _corrected(text, "2", "NLP datasets")
    yield _corrected(text, "3", "tabular datasets")
    yield _vision(text)
    yield _corrected(text, "5", "vision datasets")
    yield _settings(text)
    yield _batch_size(text)
    yield said(text, STATED)


STATED = [
    ("source and target pairs", r"a total of (\d+) different source and target pairs", "pairs", "count"),
    ("pairs with label shift", r"we obtain (\d+) pairs of different source", "pairs", "count"),
    ("datasets", r"RLSBENCH builds on (\d+) multi-domain datasets", "datasets", "count"),
    ("methods", r"we assess (\d+) popular domain adaptation methods", "methods", "count"),
    ("batch size on Officehome", r"we used a batch size of (\d+) for all methods", "rows", "batch size"),
]


def _targets(text: Text) -> Table:
    """Table 1 lists the target domains of each dataset; they are counted."""
    table = Table("1", "Target domains of each dataset, counted", "D")
    for line, row in text.above(text.find("Table 1."))[1:]:
        dataset, _, targets = cells_of(row)
        listed = re.sub(r"\([^)]*\)", "", targets).replace(" and ", ", ")
        count = len([part for part in listed.split(",") if part.strip()])
        table.add([str(count)], ["targets"], Cell("", dataset, "", "count", "", "domains", line))
    return table


def _vision(text: Text) -> Table:
    table = Table("4", f"Accuracy on vision datasets, mean over label shifts{CODE}", "K", figure="3")
    (_, header), *rows = text.above(text.find("Table 4."))
    columns = [re.sub(r"- ", "-", name_of(cell)) for cell in cells_of(header)[1:]]
    for line, row in rows:
        dataset, *cells = cells_of(row)
        table.add(cells, columns, Cell("", dataset, "", "accuracy", "", "%", line, "column"))
    return table


def _corrected(text: Text, name: str, kind: str) -> Table:
    """Accuracy without and with re-sampling (RS) and re-weighting (RW); a block with plain results before it.

    Some cells hold the numbers of several columns. Source is never re-sampled: two numbers instead of four.
    """
    table = Table(name, f"Accuracy on {kind} with re-sampling and re-weighting{CODE}", "K", figure="3")
    methods: list[str] = []
    plain = False
    for line, row in text.above(text.find(f"Table {name}.")):
        first, *cells = [name_of(cell) for cell in cells_of(row)]
        if not _numbers(cells):
            if not any("None" in cell for cell in cells):  # the line with the corrections says nothing new
                methods = _joined([cell for cell in cells if cell])
                plain = first == "Dataset"
            continue
        if plain:
            table.add(cells, methods, Cell("plain", first, "", "accuracy", "", "%", line, "column"))
        else:
            _add_corrected(table, first, methods, cells, line)
    return table


def _add_corrected(table: Table, dataset: str, methods: list[str], cells: list[str], line: int) -> None:
    columns = [
        (method, correction)
        for method in methods
        for correction in (CORRECTIONS[:2] if method == "Source" else CORRECTIONS)
    ]
    texts = " ".join(cells).split()
    if len(texts) != len(columns):
        table.left_out.append(LeftOut(dataset, line, f"{len(texts)} numbers for {len(columns)} columns"))
        return
    for (method, correction), cell in zip(columns, texts, strict=True):
        if not re.fullmatch(r"\d+\.\d", cell):
            where = f"{dataset}, {method}, {correction}"
            table.left_out.append(LeftOut(where, line, f"{cell!r} is cut off"))
            continue
        make = Cell(correction, dataset, "", "accuracy", "", "%", line, "column")
        table.add([cell], [method], make)


def _joined(names: list[str]) -> list[str]:
    """Names of methods; "BN" and "adapt", or "CDA" and "ANN", stand in two cells of a torn header."""
    joined = "\t".join(names)
    for torn, whole in (("BN\tadapt", "BN-adapt"), ("CDA\tANN", "CDANN"), ("FixN\tIatch", "FixMatch"),
                        ("TE\tNT", "TENT"), ("DA\tNN", "DANN"), ("]\tNoisyStudent", "NoisyStudent"),
                        ("]\tNoisy\tStudent", "NoisyStudent")):  # fmt: skip
        joined = joined.replace(torn, whole)
    return [name for name in joined.split("\t") if name]


def _numbers(cells: list[str]) -> bool:
    return any(re.search(r"\d\.\d", cell) for cell in cells)


def _batch_size(text: Text) -> Table:
    table = Table("7", f"Officehome with batch size 16, by target and severity of label shift{CODE}", "N")
    caption = text.find("Table 7.")
    start = text.find("Algorithm\t")
    columns: list[str] = []
    rows: list[tuple[int, list[str]]] = []
    for line in range(start, caption):
        row = text.lines[line - 1]
        if row.startswith("Algorithm\t"):
            columns = [name_of(cell) for cell in cells_of(row)[1:]]
        elif "\t" in row:
            rows.append((line, cells_of(row)))
        elif row.startswith("("):
            for at, (method, *cells) in rows:
                table.add(cells, columns, Cell(row[4:].strip(), method, "", "accuracy", "", "%", at, method))
            rows = []
    return table


def _settings(text: Text) -> Table:
    """Table 6: the settings of each dataset, then the values that each was chosen from."""
    table = Table("6", "Epochs, batch size, regularisation and learning rate", "M.2")
    (_, header), *rows = text.above(text.find("Table 6."))
    columns = [name_of(cell) for cell in cells_of(header)[1:]]
    columns[2] = "l2 regularization"  # a formula
    units = dict(zip(columns, ("epochs", "rows", "1", "1"), strict=True))
    for line, row in rows:
        dataset, *cells = cells_of(row)
        for column, cell in zip(columns, cells, strict=True):
            bare = re.sub(r"\\text|[${}\\()]", "", cell)
            setting, _, searched = (part.strip() for part in bare.partition("chosen from"))
            if " " in setting:
                table.left_out.append(LeftOut(f"{dataset}, {column}", line, f"{setting!r} is two numbers"))
            else:
                make = Cell("chosen", dataset, "", column.lower(), "", units[column], line)
                table.add([setting], [column], make)
            values = re.sub(r" ?- ?", "-", searched).split(",") if searched else []
            if torn := [value.strip() for value in values if value.count(".") > 1]:
                reason = f"{torn[0]!r} is torn, the other values are left out too"
                table.left_out.append(LeftOut(f"searched, {dataset}, {column}", line, reason))
                continue
            for number, value in enumerate(values, 1):
                make = Cell("searched", dataset, "", column.lower(), "", units[column], line)
                table.add([value], [f"{column} {number}"], make)
    return table
