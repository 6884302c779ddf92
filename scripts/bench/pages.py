"""How quick the pages of a dataset are in a real browser: first paint, bytes, scrolling through all rows.

    python scripts/bench/pages.py sma_glyphs cns_glyphs

The dataset is served on this machine, and its gallery is made as files; Chromium opens both, each in a fresh
profile. Bytes are those that came until the first paint, and until the page was quiet. A scroll goes through
all rows in 120 steps, one a frame: between two frames should be 17 ms.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

from shiftdata.data.dataset import open_dataset
from shiftdata.serve.app import server
from shiftdata.serve.hosts import listen
from shiftdata.serve.library import Library
from shiftdata.serve.pages.site import write_gallery
from shiftdata.serve.request import Mirror

SCROLL = """async (steps) => {
  const box = document.getElementById("wall"), gaps = [];
  let before = performance.now();
  for (let step = 0; step <= steps; step++) {
    box.scrollTop = ((box.scrollHeight - box.clientHeight) * step) / steps;
    await new Promise(requestAnimationFrame);
    gaps.push(performance.now() - before);
    before = performance.now();
  }
  return gaps;
}"""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    library, bound = Library(folder.parent.parent), listen("127.0.0.1", 0)
    one = server(Mirror(library), quiet=True)
    thread = threading.Thread(target=one.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{bound.getsockname()[1]}/datasets/shift/{folder.name}"
    one.should_exit = True
    thread.join()


def opened(browser: Browser, address: str) -> dict[str, Any]:
    """First paint and bytes of a page that this browser has not seen."""
    with browser.new_context(viewport={"width": 1280, "height": 900}) as context:
        page, came = context.new_page(), []
        tools = context.new_cdp_session(page)
        tools.send("Network.enable")
        tools.on("Network.loadingFinished", lambda one: came.append((time.time(), one["encodedDataLength"])))
        began = time.time()
        page.goto(address)
        page.wait_for_selector("#matrix .cell")
        page.wait_for_load_state("networkidle")
        paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime") / 1000
        early = sum(size for at, size in came if at <= began + paint)
        return {"paint": paint, "early": early, "bytes": sum(size for _, size in came)}


def scrolled(browser: Browser, address: str) -> tuple[list[float], float]:
    """Milliseconds between frames, and seconds until the pictures of a far place are there."""
    with browser.new_context(viewport={"width": 1280, "height": 900}) as context:
        page = context.new_page()
        page.goto(address)
        page.click("#show-all")
        page.wait_for_selector("#wall [role=listitem] img")
        gaps = page.evaluate(SCROLL, 120)
        page.wait_for_load_state("networkidle")
        began = time.perf_counter()
        page.evaluate(
            "document.getElementById('wall').scrollTop = 0.5 * document.getElementById('wall').scrollHeight"
        )
        page.wait_for_timeout(60)
        page.wait_for_load_state("networkidle")
        page.wait_for_selector("#wall [role=listitem] img")
        return gaps, time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("datasets", nargs="+")
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as running, tempfile.TemporaryDirectory() as scratch:
        browser = running.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name in given.datasets:
            dataset = open_dataset(name)
            assert dataset.folder is not None
            began = time.perf_counter()
            write_gallery([dataset], Path(scratch))
            made = time.perf_counter() - began
            size = sum(one.stat().st_size for one in Path(scratch, name).rglob("*") if one.is_file())
            print(f"{name}: {dataset.manifest.rows:,} rows; gallery in {made:.1f} s, {size / 1e6:.1f} MB")
            with served(dataset.folder) as address:
                for kind, where in (("served", address), ("file", f"file://{scratch}/{name}/index.html")):
                    runs = [opened(browser, where) for _ in range(given.repeats)]
                    paint, early, total = (
                        statistics.median(one[key] for one in runs) for key in ("paint", "early", "bytes")
                    )
                    print(
                        f"  {kind:<7} first paint {paint:.2f} s after {early / 1e3:.0f} kB; "
                        f"{total / 1e3:.0f} kB when quiet"
                    )
                gaps, far = scrolled(browser, address)
                late = sum(gap > 50 for gap in gaps)
                print(
                    f"  scroll  median {statistics.median(gaps):.0f} ms a frame, longest {max(gaps):.0f}, "
                    f"{late} of {len(gaps)} over 50 ms; pictures of the middle after {far:.2f} s"
                )


if __name__ == "__main__":
    main()
