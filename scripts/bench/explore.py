"""How `shiftdata explore` answers over many rows: seconds to the first paint and of a filter, memory.

    python scripts/bench/explore.py [--rows 1000000]

The rows are drawn at random: 40 labels, 20 styles, a map of 800 clumps. A real browser opens the page; a
filter is a click on a bar of a chart, timed until every chart has its answer. Needs a chromium.
"""

from __future__ import annotations

import argparse
import os
import resource
import threading
import time
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa

from shiftdata.serve.explore.app import Exploration, Server
from shiftdata.serve.explore.rows import X, Y, named
from tests.browser import browser

STYLES = [f"style {number:02d}" for number in range(20)]
LABELS = [f"label {number:02d}" for number in range(40)]


def table_of(count: int) -> pa.Table:
    """Draw rows with the columns of a dataset of pictures."""
    drawn = np.random.default_rng(0)
    label, style = drawn.integers(0, 40, count), drawn.integers(0, 20, count)
    clump = drawn.normal(size=(800, 2))[label * 20 + style] * 10
    xy = (clump + drawn.normal(size=(count, 2))).astype(np.float32)
    keys = pa.array(np.char.add("row-", np.arange(count).astype(str)))
    return pa.table(
        {
            "row": pa.array(np.arange(count, dtype=np.int32)),
            "key": keys,
            "label": named(LABELS, label),
            "style": named(STYLES, style),
            "split": named(["train", "validation", "test"], drawn.integers(0, 3, count)),
            "license": named(["CC0-1.0", "CC-BY-4.0", "OFL-1.1"], drawn.integers(0, 3, count)),
            "origin": keys,
            "erm": named(LABELS, np.where(drawn.random(count) < 0.8, label, drawn.integers(0, 40, count))),
            "erm is": named(["wrong", "right"], (drawn.random(count) < 0.8).astype(int)),
            X: pa.array(xy[:, 0]),
            Y: pa.array(xy[:, 1]),
        }
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    count = parser.parse_args().rows
    manifest = SimpleNamespace(name="drawn", title="Drawn rows")
    rows = SimpleNamespace(
        dataset=SimpleNamespace(manifest=manifest), base="mini", has_pictures=False,
        metadata=SimpleNamespace(nuisance_column="style"),
    )  # fmt: skip
    begun = time.perf_counter()
    exploration = Exploration(cast(Any, rows), table_of(count))
    _ = exploration.database
    print(f"{count:,} rows in DuckDB after {time.perf_counter() - begun:.1f} s")
    with Server(exploration) as server, browser() as chromium:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        measure(chromium, server.address)
        server.shutdown()
    print(f"server: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB at most")


#: Milliseconds from a moment of the page to the answer of its last query since; how many there were.
ANSWERED = """(since) => {
  const asked = performance.getEntriesByType("resource")
    .filter((entry) => entry.name.endsWith("/query") && entry.startTime >= since);
  return [Math.max(...asked.map((entry) => entry.responseEnd)) - since, asked.length];
}"""


def measure(chromium: Any, address: str) -> None:
    """Open the page, filter by ten bars, and print what it took."""
    page = chromium.new_page(viewport={"width": 1280, "height": 900})
    page.add_init_script(
        "performance.setResourceTimingBufferSize(100000);"
        "addEventListener('pointerdown', () => { window.pressed = performance.now(); }, true);"
    )
    page.goto(address)
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    page.get_by_text("CC0-1.0", exact=True).first.wait_for()
    opened, _ = settled(page, 0)
    print(f"first paint {paint / 1000:.2f} s, all charts {opened / 1000:.2f} s")
    times = []
    for name in ("train", "validation", "test", "CC0-1.0", "OFL-1.1", "right", "wrong"):
        bar(page, name).click()
        took, queries = settled(page, page.evaluate("window.pressed"))
        times.append(took)
    print(f"filter: median {median(times):.0f} ms, worst {max(times):.0f} ms; {queries} queries")
    print(f"browser: {memory() / 1e6:,.0f} MB in its largest process, the page's")


def bar(page: Any, name: str) -> Any:
    """Return the name of a bar: the table at the left has the same texts."""
    found = page.get_by_text(name, exact=True).all()
    return next(each for each in found if (box := each.bounding_box()) and box["x"] > 800)


def settled(page: Any, since: float) -> tuple[float, int]:
    """Wait until the page asks nothing more, and return what `ANSWERED` says."""
    took, queries, seen = 0.0, 0, -1
    while queries == 0 or queries != seen:
        seen = queries
        page.wait_for_timeout(1500)
        took, queries = page.evaluate(ANSWERED, since)
    return took, queries


def memory() -> float:
    """Return the resident bytes of the largest process of this browser that shows pages."""
    sizes = []
    for folder in Path("/proc").iterdir():
        try:
            if b"--type=renderer" in (folder / "cmdline").read_bytes() and is_ours(int(folder.name)):
                sizes.append(int((folder / "statm").read_text().split()[1]) * 4096)
        except (OSError, ValueError):
            continue
    return max(sizes)


def is_ours(process: int) -> bool:
    """Return True for a process that this one has started, or one of its own has."""
    while process > 1:
        if process == os.getpid():
            return True
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return False


if __name__ == "__main__":
    main()
