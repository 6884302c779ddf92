"""The tables of NICO++."""

from __future__ import annotations

import re
from collections.abc import Iterator

from reading import Cell, LeftOut, Table, Text, cells_of, name_of, said

from shiftdata.bench.papers.numbers import TEXT

DATASETS_OF_SPREAD = ("PACS", "DomainNet", "VLCS", "OfficeHome", "NICO++")
SHIFT = "shift"
#: How the header abbreviates the ten common domains.
DOMAINS = {
    "G": "grass", "Wa": "water", "R": "rock", "A": "autumn", "I": "indoor", "Di": "dim", "S": "sand",
    "Wi": "winter", "O": "outdoor", "Da": "dark",
}  # fmt: skip


def tables(text: Text) -> Iterator[Table]:
    """Every table."""
    yield _shifts(text)
    yield _classic(text, "2", "5.2", "Classic DG with ResNet-50")
    yield _flexible(text, "3", "5.3", "Flexible DG with ResNet-50")
    yield _spread(text)
    yield _classic(text, "5", "C.1", "Classic DG with ResNet-18")
    yield _flexible(text, "6", "C.1", "Flexible DG with ResNet-18")
    yield _classic(text, "7", "C.2", "Classic DG with ResNet-50 from random weights")
    yield _flexible(text, "8", "C.2", "Flexible DG with ResNet-50 from random weights")
    yield _classic(text, "9", "C.3", "Classic DG with ResNet-50 on another split")
    yield _common(text)
    yield _unique(text)
    yield _layers(text)
    yield said(text, STATED)


#: What the details of a layer say, and the column and the unit of each number.
DETAILS = (
    (r"^(\d+) ×", "out channels", "channels"),
    (r"^\d+ × (\d+) × \d+$", "height", "pixels"),
    (r"^\d+ × \d+ × (\d+)$", "width", "pixels"),
    (r"Kernel Size (\d+)", "kernel size", "pixels"),
    (r"Stride (\d+)", "stride", "pixels"),
    (r"Out Channel (\d+)", "out channels", "channels"),
    (r"p = ([\d.]+)", "p", "share"),
    (r"^(Class_Num)$", "classes", TEXT),
    (r", ((?:BN, )?ReLU)$", "then", TEXT),
)

STATED = [
    ("images, thousands", r"([\d.]+)k images are selected", "thousand images", "count"),
    ("categories", r"Total (\d+) categories are provided", "categories", "count"),
    ("animals", r"is (\d+) : \d+ : \d+ : \d+", "categories", "count"),
    ("plants", r"is \d+ : (\d+) : \d+ : \d+", "categories", "count"),
    ("vehicles", r"is \d+ : \d+ : (\d+) : \d+", "categories", "count"),
    ("substances", r"is \d+ : \d+ : \d+ : (\d+)", "categories", "count"),
    ("capacity of most common domains", r"is at least (\d+) and \d+, respectively", "images", "count"),
    ("capacity of most unique domains", r"is at least \d+ and (\d+), respectively", "images", "count"),
]


def _shifts(text: Text) -> Table:
    table = Table("1", "Covariate shift and concept shift of seven datasets", "4.3")
    (_, header), *rows = text.below(text.find("Table 1:"))
    columns = [name_of(cell) for cell in cells_of(header)[1:]]
    metrics = ("covariate shift", "concept shift, min", "concept shift, max")
    for (line, row), metric in zip(rows, metrics, strict=True):
        table.add(cells_of(row)[1:], columns, Cell("", metric, "", metric, "", SHIFT, line))
    return table


def _classic(text: Text, name: str, section: str, title: str) -> Table:
    table = Table(name, title, section)
    caption = text.find(f"Table {name}:")
    (_, split_header), (_, header), *rows = text.below(caption)
    columns = [name_of(cell) for cell in cells_of(header)[1:]]
    splits = _splits(split_header)
    ends = [number + 1 for number, column in enumerate(columns) if column == "Std"]
    table.facts = _classic_facts(text.lines[caption - 1], splits, columns, ends)
    for line, row in rows:
        method, *cells = cells_of(row)
        for start, end in zip([0, *ends], ends, strict=False):
            part = f"test {', '.join(columns[start : end - 3])}"
            for column, cell in zip(columns[start:end], cells[start:end], strict=True):
                metric = {"Std": "Std over domains", "Ova.": "overall accuracy"}.get(column, "accuracy")
                make = Cell(part, name_of(method), "", metric, "", "%", line, name_of(method))
                table.add([cell], [column], make)
    return table


def _splits(header: str) -> list[list[str]]:
    """The training domains that a header lists; its words are torn over several cells."""
    joined = re.sub(r"\s", "", name_of(header.replace("\t", "")))
    listed = re.findall(r"doma\w*?s:(.*?)(?=Train|$)", joined)
    # A letter at the edge of a cell stands there twice, sometimes misread: "R, A" + "A, I", "Wa, F" + "R, I".
    return [re.findall(r"(Wa|Wi|Di|Da|[GRAISO])(?=,|\\|$)", part) for part in listed]


def _classic_facts(
    caption: str, splits: list[list[str]], columns: list[str], ends: list[int]
) -> dict[str, str]:
    """What header and caption say of training and test domains, and of the averages."""
    facts = {}
    for number, (split, start, end) in enumerate(zip(splits, [0, *ends], ends, strict=False), 1):
        facts[f"split {number}, training, header"] = ", ".join(sorted(DOMAINS[one] for one in split))
        tested = sorted(DOMAINS[column] for column in columns[start : end - 3])
        facts[f"split {number}, test, header"] = ", ".join(tested)
    named = re.search(r"The training domains are (.*?) while", re.sub(r"[*]", "", caption))
    if named:
        facts["split 1, training, caption"] = ", ".join(sorted(re.split(r", | and ", named[1])))
    averaged = re.search(r"accuracy of (\d+) domains", caption)
    if averaged:
        facts["domains averaged, caption"] = averaged[1]
    trained = re.search(r"methods on (\w+)", re.sub(r"<[^>]*>", "", caption))
    if trained:
        facts["dataset, caption"] = trained[1]
    facts["dataset, title"] = "NICO"
    if "of accuracies" in caption:
        facts["spread, caption"] = "variance" if "variance of accuracies" in caption else "other"
        facts["spread, header"] = columns[-1]
    return facts


def _flexible(text: Text, name: str, section: str, title: str) -> Table:
    table = Table(name, title, section)
    caption = text.find(f"Table {name}:")
    (_, header), *rows = text.below(caption)
    columns = [name_of(cell) for cell in cells_of(header)[1:]]
    for line, row in rows:
        setting, *cells = cells_of(row)
        table.add(cells, columns, Cell("", setting, "", "accuracy", "", "%", line, "column"))
    table.facts["setting, caption"] = "flexible DG" if "flexible DG" in text.lines[caption - 1] else "DG"
    table.facts["setting, rows"] = "flexible DG"
    return table


def _spread(text: Text) -> Table:
    table = Table("4", "Spread of test accuracy over epochs and seeds, and gap to oracle selection", "5.4")
    _, _, *rows = text.below(text.find("Table 4:"))
    for line, row in rows:
        method, *cells = cells_of(row)
        for number, dataset in enumerate(DATASETS_OF_SPREAD):
            three = cells[3 * number : 3 * number + 3]
            for metric, cell in zip(("epoch spread", "seed spread", "oracle gap"), three, strict=True):
                make = Cell(dataset, name_of(method), "", metric, "", "%", line, name_of(method))
                table.add([cell], [metric], make)
    return table


def _common(text: Text) -> Table:
    """Table 10. Each line begins with a blurred copy of others, which is passed over."""
    table = Table("10", "Images of each category in the ten common domains", "D", figure="1")
    (_, header), *rows = _common_rows(text)
    for line, row in rows:
        make = Cell("", row[0], "", "images", "", "images", line)
        table.add([cell.rstrip(".") for cell in row[1:]], header[1:], make)
    return table


def _common_rows(text: Text) -> list[tuple[int, list[str]]]:
    """The header of table 10, and one row a category."""
    lines = text.below(text.find("Table 10:"), until="Table 11:")
    rows = [(line, cells_of(row)[-12:]) for line, row in lines]
    start = next(number for number, (_, cells) in enumerate(rows) if "Category" in cells[0])
    return [(line, cells) for line, cells in rows[start:] if len(cells) == 12]


def _unique(text: Text) -> Table:
    """Table 11: a line with ten domain names and the total, then a line with ten counts."""
    table = Table("11", "Images of each category in its ten unique domains", "D", figure="1")
    found: list[tuple[int, list[str], list[str]]] = []  # the line, the names, the counts of a category
    for line, row in list(text.below(text.find("Table 11:"), until="Table 12:"))[1:]:
        cells = [name_of(cell) for cell in cells_of(row)[-12:]]  # before them: a blurred copy of other lines
        numbers = [cell for cell in cells[1:] if cell.isdigit()]
        if cells[-1].isdigit() and re.search("[a-z]", "".join(cells[1:])):
            found.append((line, cells, []))
        elif found and not found[-1][2] and len(numbers) >= 5:
            found[-1] = (line, found[-1][1], numbers)
    unnamed = [cells for _, cells, _ in found if not cells[0]]
    missing = {cells[0] for _, cells in _common_rows(text)[1:]} - {cells[0] for _, cells, _ in found}
    if len(unnamed) == len(missing) == 1:  # named by elimination
        unnamed[0][0] = missing.pop()
    for line, cells, counts in found:
        _category(table, cells, line, counts)
    return table


def _category(table: Table, names: list[str], line: int, counts: list[str]) -> None:
    """Add the total and the counts of a category, with the names of its domains where all are whole."""
    category, *domains, total = names
    make = Cell("", category, "", "images", "", "images", line)
    table.add([total], ["Total"], make)
    if len(counts) != 10:
        reason = f"{len(counts)} counts for ten domains; the total is kept"
        table.left_out.append(LeftOut(category, line, reason))
        return
    whole = [re.sub(r"(?<=\w)- (?=\w)", "", domain) for domain in domains]
    if not all(whole):
        reason = "the names of its domains are torn; its counts are kept"
        table.left_out.append(LeftOut(category, line, reason))
        whole = [""] * 10
    table.add(counts, [f"{number} {domain}".strip() for number, domain in enumerate(whole, 1)], make)


def _layers(text: Text) -> Table:
    """Table 12: the layers from the input on, numbered, since several have one name."""
    table = Table("12", "The layers of the CNN for MNIST-M", "D")
    _, *rows = text.below(text.find("Table 12:"))
    for number, (line, row) in enumerate(rows, 1):
        layer, printed = cells_of(row)
        details = printed.replace("\\times", "×").strip("$ ")
        for pattern, column, unit in DETAILS:
            if match := re.search(pattern, details):
                make = Cell("", f"{number} {layer}", "", column, "", unit, line)
                table.add([match[1]], [column], make)
    return table
