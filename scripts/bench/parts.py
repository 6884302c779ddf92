"""What a part of a dataset costs over the Hub's protocol: bytes served for the bytes of its images.

    python scripts/bench/parts.py [dataset folder] [--out build/bench]

The dataset is served by a mirror in this process, which counts the bytes of all bodies that it sends. A part
is fetched into an empty folder and verified; the images that it needs are those in its metadata.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

import shiftdata as sd
from shiftdata.serve.app import server
from shiftdata.serve.hosts import listen
from shiftdata.serve.library import Library
from shiftdata.serve.request import Mirror

PARTS: dict[str, dict[str, Any]] = {
    "two styles": {"select": {"style": ["amber", "embers"]}},
    "one style": {"select": {"style": "amber"}},
    "gf_k8_mu10": {"config": "gf_k8_mu10"},
    "one style, test": {"select": {"style": "amber"}, "split": "test"},
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dataset", nargs="?", type=Path, default=Path("build/shift/sma_emoji"))
    parser.add_argument("--out", type=Path, default=Path("build/bench"), help="where parts.json is written")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    found = {}
    with serving(options.dataset.absolute()) as (endpoint, sent):
        place = f"hf+{endpoint}/datasets/shift/{options.dataset.name}"
        print(f"{'part':<18}{'rows':>8}{'images, MB':>12}{'served, MB':>12}{'ratio':>8}{'seconds':>9}")
        for name, asked in PARTS.items():
            found[name] = one = measure(place, asked, sent)
            ratio = one["served"] / one["images"]
            print(
                f"{name:<18}{one['rows']:>8,}{one['images'] / 1e6:>12.2f}{one['served'] / 1e6:>12.2f}"
                f"{ratio:>8.3f}{one['seconds']:>9.2f}"
            )
    (options.out / "parts.json").write_text(json.dumps(found, indent=1))


def measure(place: str, asked: dict[str, Any], sent: list[int]) -> dict[str, float]:
    """Fetch a part into an empty folder; its rows, bytes and seconds."""
    scratch = Path(tempfile.mkdtemp())
    try:
        sent.clear()
        began = time.perf_counter()
        folder = sd.fetch(place, out=scratch / "part", **asked)
        seconds, served = time.perf_counter() - began, sum(sent)
        assert sd.verify(folder) == []
        lengths = [pq.read_table(path)["length"] for path in folder.glob("metadata/*/*.parquet")]
        images = sum(pc.sum(one).as_py() for one in lengths)
        return {"rows": sum(map(len, lengths)), "images": images, "served": served, "seconds": seconds}
    finally:
        shutil.rmtree(scratch)


@contextmanager
def serving(folder: Path) -> Iterator[tuple[str, list[int]]]:
    """A mirror of one dataset, and the sizes of the bodies that it sends."""
    library, bound, sent = Library(folder), listen("127.0.0.1", 0), list[int]()
    one = server(Mirror(library), quiet=True)
    app: Any = one.config.app

    async def counting(scope: Any, receive: Any, send: Any) -> None:
        async def tally(message: Any) -> None:
            sent.append(len(message.get("body", b"")))
            await send(message)

        await app(scope, receive, tally)

    one.config.app = counting
    thread = threading.Thread(target=one.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{bound.getsockname()[1]}", sent
    finally:
        one.should_exit = True
        thread.join()
        bound.close()


if __name__ == "__main__":
    main()
