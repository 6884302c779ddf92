"""The tables of the rethought DG protocol (DomainBed-v2). Their cells are separated by single spaces."""

from __future__ import annotations

from collections.abc import Iterator

from reading import Cell, Table, Text, place, said

DATASETS = ("PACS", "VLCS", "OfficeHome", "TerraInc", "DomainNet", "NICO++")
BACKBONES = ("ResNet-18", "ResNet-50", "ViT-B/16")
LEADERBOARDS = range(9, 22)


def tables(text: Text) -> Iterator[Table]:
    """Every table."""
    yield _probes(text, "1", "2", "Linear probing and fine-tuning, ResNet-50, supervised pretraining")
    yield _gaps(text)
    yield _probes(text, "3", "2.1", "Linear probing and fine-tuning on OfficeHome")
    yield _leakage(text)
    yield _summary(text)
    yield _probes(text, "6", "B.2", "Linear probing and fine-tuning on PACS, VLCS and TerraInc")
    yield _probes(text, "7", "B.1", "Linear probing and fine-tuning on DomainNet and NICO++, ResNet-50")
    yield _probes(text, "8", "B.2", "Linear probing and fine-tuning on DomainNet and NICO++")
    for number in LEADERBOARDS:
        yield _leaderboard(text, str(number))
    yield said(text, STATED)


_RHO = "rank correlation"
STATED = [
    ("supervised against scratch", r"training from scratch is ([\d.]+) while", "1", _RHO),
    ("MoCo-v2 against scratch", r"are ([\d.]+) and [\d.]+ respectively", "1", _RHO),
    ("MoCo-v3 against scratch", r"are [\d.]+ and ([\d.]+) respectively", "1", _RHO),
    ("MoCo-v2 against MoCo-v3", r"between MoCo-v2 and MoCo-v3 is ([\d.]*\d)", "1", _RHO),
    ("models trained for a setting", r"total cost is training (\d+) models", "models", "count"),
    ("trials", r"over a predefined distribution with (\d+) trials", "trials", "count"),
    ("further seeds", r"hyperparameters to run (\d+) more times", "seeds", "count"),
    ("examples of PACS", r"comprises ([\d,]+) samples with 7 classes", "images", "count"),
    ("examples of OfficeHome", r"65 classes and ([\d,]+) examples", "images", "count"),
    ("examples of DomainNet", r"dataset with ([\d,]+) samples", "images", "count"),
]


def _rows(text: Text, name: str) -> Iterator[tuple[int, str]]:
    """The lines under a caption that end with a number (or a dash), headers among them."""
    for line in range(text.find(f"Table {name}:") + 1, len(text.lines) + 1):
        row = text.lines[line - 1].strip()
        if not row or row.startswith("Table "):
            return
        yield line, row


def _probes(text: Text, name: str, section: str, title: str) -> Table:
    """LP and FT rows under a header for each dataset, some behind a backbone and a pretraining."""
    table = Table(name, title, section)
    dataset, columns, backbone, pretraining = "", [""], "", ""
    for line, row in _rows(text, name):
        words = row.split()
        if row.startswith(DATASETS):
            dataset, *columns = words
            backbone = pretraining = ""
            continue
        kind = words.index("LP") if "LP" in words else words.index("FT")
        said_before = words[:kind]
        if said_before and said_before[0] in BACKBONES:
            backbone, *said_before = said_before
        pretraining = " ".join(said_before) or pretraining
        part = place(dataset, backbone, pretraining)
        table.add(words[kind + 1 :], columns, Cell(part, words[kind], "", "accuracy", "", "%", line))
    return table


def _gaps(text: Text) -> Table:
    table = Table("2", "Gap of linear probing to fine-tuning, and distance of test domain to ImageNet", "2.1")
    dataset, columns = "", [""]
    for line, row in _rows(text, "2"):
        first, *cells = row.split()
        if first in DATASETS:
            dataset, columns = first, cells
        else:
            unit = {"Gap": "share", "FID": "FID"}[first]
            table.add(cells, columns, Cell(dataset, first, "", first, "", unit, line))
    return table


def _leakage(text: Text) -> Table:
    table = Table("4", "Leakage from oracle model selection on K test domains", "2.2")
    part, columns, before = "", [""], ""
    for line, row in _rows(text, "4"):
        words = row.split()
        if words[0] in DATASETS:
            part, columns = f"{words[0]}, {', '.join(words[1:4])}", words[1:]
            continue
        before = words[0] if words[0] in ("IID", "Oracle") else before
        cells = [word for word in words if word not in ("IID", "Oracle") and not word.startswith("K=")]
        method = place(before, *[word for word in words if word.startswith("K=")])
        table.add(cells[:4], columns[:4], Cell(part, method, "", "accuracy", "", "%", line))
        table.add(cells[4:5], ["leakage"], Cell(part, method, "", "leakage", "", "%", line))
        if cells[5] != "/":
            table.add(cells[5:], ["change"], Cell(part, method, "", "leakage change", "", "%", line))
    return table


def _summary(text: Text) -> Table:
    """Table 5: three leaderboards; the last column is a dash where a rank did not change."""
    table = Table("5", "Leaderboards of supervised and self-supervised pretraining", "3.2")
    part, columns = "", [""]
    for line, row in _rows(text, "5"):
        if "leaderboard:" in row:
            part = row.split(": ", 1)[1].replace("pretrained ", "")
        elif row.startswith("Algorithm"):
            columns = row.split()[1:7]
        else:
            method, *cells = row.split()
            make = Cell(part, method, "", "accuracy", "", "%", line, method)
            table.add(cells[:6], columns, make)
            table.add(cells[6:7], ["Ranking"], Cell(part, method, "", "rank", "", "rank", line, method))
            change = [cell.replace("-", "0") if cell == "-" else cell for cell in cells[7:]]
            make = Cell(part, method, "", "rank change", "", "places", line, method)
            table.add(change, ["Rank change"], make)
    return table


def _leaderboard(text: Text, name: str) -> Table:
    """One dataset, ten algorithms, one column a test domain."""
    rows = list(_rows(text, name))
    setting, header = rows[0][1], rows[1][1]
    dataset, *columns = header.split()
    setting = setting.replace("pretrained ", "")
    section = {"9": "C.1"}.get(name, "C.2" if int(name) < 15 else "C.3" if int(name) < 20 else "C.4")
    table = Table(name, f"Leaderboard of {dataset}: {setting}", section)
    for line, row in rows[2:]:
        method, *cells = row.split()
        make = Cell(f"{dataset}, {setting}", method, "", "accuracy", "", "%", line, method)
        table.add(cells, columns, make)
    return table
