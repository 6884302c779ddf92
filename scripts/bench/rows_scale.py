"""The rows of a page at a million rows: how long a server takes to filter, search and sort them.

    python scripts/bench/rows_scale.py [--rows 1000000] [--at build/bench-rows]

A dataset of tiny pictures and one of a table's rows are packed once and served by `shiftdata serve`; each
request is timed over HTTP: the first, which reads what it needs, then the median of five, with the processor
time of the process that makes pages, which a busy machine does not change. The memory is that process's too.
"""

from __future__ import annotations

import argparse
import hashlib
import http.client
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
from pack import NUISANCES, recipe_of, rendered, write_spool

from builders.blocks import ITEMS_PER_BLOCK
from builders.encode import TableEncoding
from builders.make import assign, pack
from builders.make.equal import listed
from builders.make.render import plan_blocks
from builders.spool import Spool
from shiftdata.data.format.schema import features_as_bytes

#: Requests of which the median is printed.
TIMES = 5
FEATURES = {"age": "int64", "dose": "float64", "town": "string"}
QUERIES = {
    "all rows": "",
    "a label": "label=1",
    "a group and a split": "label=1&nuisance=3&split=test",
    "commercial use": "use=commercial",
    "search, 2,000 hits": "q=item-00012",
    "search, no hit": "q=nowhere",
    "by key": "sort=key",
    "by key, in the middle": "sort=key&from={middle}",
    "by origin, down": "sort=-origin",
    "by length": "sort=length",
    "searched, by length": "q=item-001&sort=-length&label=1",
}
OF_TABLES = {"by a number": "sort=dose", "by a text, down": "sort=-town"}


def table_rows(rows: int, folder: Path) -> pack.Rendered:
    """Write the spool of a table: a number, a fraction and a text a row."""
    recipe = replace(
        recipe_of(rows), name="rows_table", encoding=TableEncoding(features=FEATURES), protocols=()
    )
    content = listed(recipe.album)
    fold_of = assign.folds(content.items)
    plan = plan_blocks(recipe, ["all"], content.items, fold_of)
    blocks = {name: [block.id for block in of] for name, of in plan.items()}
    spool, step, draws = Spool(folder), ITEMS_PER_BLOCK["table"], np.random.default_rng(0)
    for number, block in enumerate(blocks["all"]):
        lines = []
        for item in content.items[number * step : (number + 1) * step]:
            for name in NUISANCES:
                values = [
                    int(draws.integers(99)),
                    round(draws.random(), 4),
                    f"town {draws.integers(999)}",
                ]
                example, key = features_as_bytes(values), f"{item.key}-{name}"
                lines.append(
                    {"item": item.key, "key": key, "nuisance": name, "trajectory": key, "severity": None}
                    | {"params": "{}", "sha256": hashlib.sha256(example).digest(), "size": len(example)}
                    | {"example": example}
                )
        spool.write(block, lines, {})
    return pack.Rendered(recipe=recipe, content=content, fold_of=fold_of, spool=spool, blocks=blocks)


def make(rows: int, folder: Path) -> None:
    for name in ("pictures", "table"):
        out, spool = folder / "shift" / name, folder / "spool"
        if (out / "manifest.json").is_file():
            continue
        shutil.rmtree(spool, ignore_errors=True)
        if name == "table":
            made = table_rows(rows, spool)
        else:
            write_spool(rows, 150, spool)
            made = rendered(rows, spool)
        pack.pack(made, out)
        shutil.rmtree(spool)


@contextmanager
def served(folder: Path) -> Iterator[tuple[int, int]]:
    """Serve a folder; give the port and the id of the process."""
    command = [sys.executable, "-m", "shiftdata", "serve", str(folder), "--port", "0", "--quiet"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield int(re.search(r":(\d+)$", server.stdout.readline())[1]), server.pid
    finally:
        server.kill()


def ask(port: int, path: str) -> tuple[float, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    started = time.perf_counter()
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read()
    spent = time.perf_counter() - started
    if answer.status != 200:
        sys.exit(f"{path}: {answer.status} {body[:300].decode()}")
    return spent, body


def page_process(server: int) -> str:
    """The server's child, which makes the pages."""
    return Path(f"/proc/{server}/task/{server}/children").read_text().split()[0]


def processor(child: str) -> float:
    """The seconds of processor time that a process has taken."""
    fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def most_memory(child: str) -> str:
    """The most memory that a process had."""
    kilobytes = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{child}/status").read_text())[1]
    return f"{int(kilobytes) / 1024:,.0f} MB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--at", type=Path, default=Path("build/bench-rows"))
    args = parser.parse_args()
    make(args.rows, args.at)
    for name in ("pictures", "table"):
        with served(args.at) as (port, server):
            spent, _ = ask(port, f"/datasets/shift/{name}")
            child = page_process(server)
            print(f"{name}, {args.rows:,} rows: the page {spent * 1000:,.0f} ms")
            for said, query in (QUERIES | (OF_TABLES if name == "table" else {})).items():
                path = (
                    f"/datasets/shift/{name}/data/rows.json?count=100&{query.format(middle=args.rows // 2)}"
                )
                first, body = ask(port, path)
                before = processor(child)
                warm = statistics.median(ask(port, path)[0] for _ in range(TIMES))
                used = (processor(child) - before) / TIMES
                total = json.loads(body)["total"]
                print(
                    f"  {said:24} first {first * 1000:6,.0f} ms, then {warm * 1000:5,.0f} ms, of which "
                    f"{used * 1000:4,.0f} ms of processor; {total:,} rows",
                    flush=True,
                )
            print(f"  memory of the pages: {most_memory(child)}")


if __name__ == "__main__":
    main()
