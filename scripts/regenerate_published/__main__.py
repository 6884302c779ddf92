"""Extract every result table of the five papers from their text into `shiftdata/bench/papers/data`.

    python scripts/regenerate_published FOLDER            # the papers' texts, *.txt or *.md, one file a paper
    python scripts/regenerate_published FOLDER --check    # compare with what ships, write nothing

Nothing is typed in: numbers come from the text, and a row or cell that its conversion damaged is left out and
named in `tables.json`. The text itself is not part of this repository.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

import cns_bench
import domainbed_v2
import nico
import rlsbench
import sma
from check_published import fingerprint
from reading import Table, Text, cell_value

from shiftdata.bench.papers.numbers import DATA, KEY, SCHEMA, TEXT
from shiftdata.errors import InputError

READERS: dict[str, ModuleType] = {
    "sma": sma, "nico++": nico, "cns-bench": cns_bench, "domainbed-v2": domainbed_v2, "rlsbench": rlsbench,
}  # fmt: skip
#: How each paper is cited.
CITATIONS = {
    "sma": (
        "R. Mussard, A. Gauffre, I. Ullah, T. G. H. Khuong, M.-R. Amini, I. Guyon, L. Sun-Hosoya. Stylized "
        "Meta-Album: Group-bias injection with style transfer to study robustness against distribution "
        "shifts. The dataset's first release is of August 2024."
    ),
    "nico++": (
        "X. Zhang, Y. He, R. Xu, H. Yu, Z. Shen, P. Cui. NICO++: Towards Better Benchmarking for Domain "
        "Generalization. CVPR 2023."
    ),
    "cns-bench": (
        "O. Dünkel, A. Jesslen, J. Xie, C. Theobalt, C. Rupprecht, A. Kortylewski. CNS-Bench: Benchmarking "
        "Image Classifier Robustness Under Continuous Nuisance Shifts. ICCV 2025; the numbers are those of "
        "the appendix of the first submission (2024)."
    ),
    "domainbed-v2": (
        "H. Yu, X. Zhang, R. Xu, J. Liu, Y. He, P. Cui. Rethinking the Evaluation Protocol of Domain "
        "Generalization. CVPR 2024; arXiv:2305.15253v2."
    ),
    "rlsbench": (
        "S. Garg, N. Erickson, J. Sharpnack, A. J. Smola, S. Balakrishnan, Z. C. Lipton. RLSbench: Domain "
        "Adaptation Under Relaxed Label Shift. ICML 2023, PMLR 202."
    ),
}

#: A phrase at the head of each paper's text, by which its file is recognised.
TITLES = {
    "sma": "Stylized Meta-Album",
    "nico++": "Towards Better Benchmarking for Domain Generalization",
    "cns-bench": "more details about the benchmarking dataset, the filtering",
    "domainbed-v2": "Rethinking the Evaluation Protocol of Domain Generalization",
    "rlsbench": "Domain Adaptation Under Relaxed Label Shift",
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="regenerate_published", description=__doc__)
    parser.add_argument("folder", type=Path, help="the folder with the papers' texts")
    parser.add_argument(
        "--check", action="store_true", help="compare with what ships; exit 1 on a difference"
    )
    options = parser.parse_args()
    try:
        files = _extract(options.folder)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if options.check:
        return _compare(files)
    DATA.mkdir(exist_ok=True)
    for name, data in files.items():
        (DATA / name).write_bytes(data)
        print(f"{name}: {len(data):,} bytes")
    return 0


def _extract(folder: Path) -> dict[str, bytes]:
    files, about = {}, []
    for paper, reader in READERS.items():
        path = _find(folder, TITLES[paper])
        tables = list(reader.tables(Text.read(path)))
        rows = pa.Table.from_pylist([row for table in tables for row in _rows(paper, table)], schema=SCHEMA)
        _check_keys(rows)
        files[f"{paper}.parquet"] = _parquet(rows, CITATIONS[paper])
        about += [_about(paper, table, rows) for table in tables]
        left = sum(len(table.left_out) for table in tables)
        print(f"{paper}: {len(tables)} tables, {rows.num_rows:,} cells, {left} left out", file=sys.stderr)
    files["tables.json"] = (json.dumps(about, indent=1, ensure_ascii=False) + "\n").encode()
    return files


def _find(folder: Path, title: str) -> Path:
    texts = sorted(path for path in folder.glob("*.[tm]*") if path.stem.lower() != "readme")
    found = [path for path in texts if title.lower() in path.read_text(encoding="utf-8")[:3000].lower()]
    if len(found) != 1:
        raise InputError(
            f"{folder} contains {len(texts)} texts, {len(found)} of them by the title {title!r}; "
            "give a folder with the text of each paper once"
        )
    return found[0]


def _rows(paper: str, table: Table) -> list[dict[str, object]]:
    rows = []
    for cell in table.cells:
        value, spread = cell_value(cell.printed, cell.unit)
        named = {name: getattr(cell, name) for name in SCHEMA.names if hasattr(cell, name)}
        where = {"paper": paper, "table": table.name, "section": table.section}
        rows.append(named | where | {"value": value, "spread": spread})
    return rows


def _check_keys(rows: pa.Table) -> None:
    counted = rows.group_by(list(KEY)).aggregate([([], "count_all")])
    twice = counted.filter(pa.compute.greater(counted["count_all"], 1)).to_pylist()
    if twice:
        raise InputError(f"{len(twice)} places hold two numbers, such as {twice[0]}")


def _about(paper: str, table: Table, rows: pa.Table) -> dict[str, object]:
    return {
        "paper": paper, "table": table.name, "title": table.title, "section": table.section,
        "figure": table.figure, "numbers": sum(cell.unit != TEXT for cell in table.cells),
        "sha256": fingerprint(rows, paper, table.name), "facts": table.facts,
        "left_out": [vars(place) for place in table.left_out],
    }  # fmt: skip


def _parquet(rows: pa.Table, citation: str) -> bytes:
    buffer = pa.BufferOutputStream()
    pq.write_table(rows.replace_schema_metadata({"citation": citation}), buffer, compression="zstd")
    return buffer.getvalue().to_pybytes()


def _compare(files: dict[str, bytes]) -> int:
    ships = {path.name: path.read_bytes() for path in DATA.iterdir()}
    different = [name for name, data in files.items() if ships.get(name) != data]
    for name in different:
        print(f"{name} differs from the text")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
