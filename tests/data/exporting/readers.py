"""Readers of each layout that know nothing of this package's code: what a user of the layout sees."""

from __future__ import annotations

import csv
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import webdataset as wds

import shiftdata as sd
from shiftdata.tables import from_csv_cell

#: Layouts that do not say the nuisance of a picture.
WITHOUT_NUISANCE = ("imagefolder", "clip-benchmark")

#: By set: key, label, nuisance (empty where the layout does not say it) and the hash of the picture.
Rows = dict[str, Counter[tuple[str, str, str, str]]]


def rows_of(task: sd.Task, *, nuisance: bool = True) -> Rows:
    """The dataset's own rows of each set, hashes from the metadata files, labels of unlabelled sets too."""
    metadata = task.metadata
    files = sorted(metadata.dataset.folder.glob(f"metadata/{metadata.base}/*.parquet"))
    table = [row for path in files for row in pq.read_table(path, columns=["key", "sha256"]).to_pylist()]
    hashes = {row["key"]: row["sha256"].hex() for row in table}
    rows: Rows = {}
    for name, of_set in task.sets.items():
        rows[name] = Counter()
        counts = np.ones(len(of_set.indices), int) if of_set.counts is None else of_set.counts
        of_rows = metadata.table.take(of_set.indices).to_pylist()
        for row, count in zip(of_rows, counts.tolist(), strict=True):
            style = row[metadata.nuisance_column]
            tint = metadata.nuisances[style] if nuisance and style is not None else ""
            rows[name][row["key"], metadata.labels[row["label"]], tint, hashes[row["key"]]] += count
    return rows


def read(layout: str, folder: Path, record: Mapping[str, Any]) -> Rows:
    """The rows of an exported folder, as its layout's readers see them."""
    rows: Rows = {name: Counter() for name in record["sets"]}
    for name, path, label, nuisance in READERS[layout](folder, record):
        rows[name][*key_and_hash(path)[:1], label, nuisance, key_and_hash(path)[1]] += 1
    return rows


def key_and_hash(path: Path) -> tuple[str, str]:
    return re.split(r"[.+]", path.name)[0], hashlib.sha256(path.read_bytes()).hexdigest()


Found = Iterator[tuple[str, Path, str, str]]


def _imagefolder(folder: Path, record: Mapping[str, Any]) -> Found:
    sets = {of["folder"]: name for name, of in record["sets"].items()}
    labels = {of["folder"]: of["name"] for of in record["class_to_label"]}
    for path in folder.glob("*/*/*"):
        yield sets[path.parts[-3]], path, labels[path.parts[-2]], ""


def _domainbed(folder: Path, record: Mapping[str, Any]) -> Found:
    domains = {of["folder"]: of["name"] for of in record["domain_to_nuisance"]}
    for name, of in record["sets"].items():
        for path, number in pairs(folder / f"{of['folder']}.txt"):
            label = record["class_to_label"][number]
            assert path.split("/")[1] == label["folder"]
            yield name, folder / path, label["name"], domains[path.split("/")[0]]


def _wilds(folder: Path, record: Mapping[str, Any]) -> Found:
    inner = folder / f"{record['dataset']}_v1.0"
    classes, domains, nuisance = record["class_to_label"], record["domain_to_nuisance"], record["nuisance"]
    names: dict[str, str] = {}
    for row in cells(inner / "metadata.csv"):
        label, domain = classes[int(row["y"])]["name"], domains[int(row[nuisance])]["name"]
        shown = [row["split_name"], label, domain]
        assert names.setdefault(row["split"], shown[0]) == shown[0]
        assert [row["label_name"], row[f"{nuisance}_name"]] == shown[1:]
        assert int(row["group"]) == int(row["y"]) * len(record["domain_to_nuisance"]) + int(row[nuisance])
        yield shown[0], inner / row["img_filename"], shown[1], shown[2]


def _lists(folder: Path, record: Mapping[str, Any]) -> Found:
    phases = {"validation": "val"}
    labels = [of["name"] for of in record["class_to_label"]]
    assert (folder / "classes.txt").read_text().splitlines() == [" ".join(name.split()) for name in labels]
    for name, of in record["sets"].items():
        domains: dict[str, str] = {}
        for domain in record["domain_to_nuisance"]:
            title = f"{domain['folder']}_{phases.get(of['folder'], of['folder'])}"
            for path in folder.glob(f"lists/{title}.txt"):
                domains |= {image: domain["name"] for image, _ in pairs(path)}
        for path, number in pairs(folder / f"{of['folder']}.txt"):
            yield name, folder / path, labels[number], domains.get(path, "")


def _clip_benchmark(folder: Path, record: Mapping[str, Any]) -> Found:
    """Take the files that its loader takes, and unpack each tar where `keys.csv` has its pictures."""
    names = (folder / "classnames.txt").read_text(encoding="utf-8").splitlines()
    labels = [of["name"] for of in record["class_to_label"]]
    assert names == [" ".join(name.split()) for name in labels]
    for name, of in record["sets"].items():
        number = int((folder / of["folder"] / "nshards.txt").read_text())
        tars = str(folder / of["folder"] / f"{{0..{number - 1}}}.tar")
        for sample in wds.WebDataset(tars, shardshuffle=False):
            (member,) = {"webp", "png", "jpg", "jpeg"} & set(sample)
            path = Path(sample["__url__"]).with_suffix("") / f"{sample['__key__']}.{member}"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(sample[member])
            yield name, path, labels[int(sample["cls"])], ""


READERS: dict[str, Callable[[Path, Mapping[str, Any]], Found]] = {
    "imagefolder": _imagefolder,
    "domainbed": _domainbed,
    "wilds": _wilds,
    "lists": _lists,
    "clip-benchmark": _clip_benchmark,
}


def pairs(path: Path) -> list[tuple[str, int]]:
    lines = (line.rpartition(" ") for line in path.read_text().splitlines())
    return [(image, int(number)) for image, _, number in lines]


def cells(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as stream:
        return [{name: from_csv_cell(cell) for name, cell in row.items()} for row in csv.DictReader(stream)]
