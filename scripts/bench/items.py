"""Build a dataset of very many tiny items: memory of the planner and of workers, and files opened, by way.

    python scripts/bench/items.py --items 1000000 [--way alone ranks ray] [--plan]

The items are names and a text of some bytes each, which the recipe's album makes up: it says what files there
are, and counts each that is read. A way is one process with `--workers 2`, four ranks that wait, or a Ray
cluster of this machine. Peak memory is what the system counted of each process; the content_id of all ways
must be equal, and each file read once. With `--plan`, only the list of items and what is planned from it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from threading import Thread

RECIPE = """
import hashlib
import os
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from builders.albums.reading import RawFile, Reads
from builders.encode import TextEncoding
from builders.items import ItemTable
from builders.recipe import Base, Recipe
from builders.sample import Item
from builders.shifts.steps.domains import Domains
from shiftdata.evaluation.protocols import LeaveOneDomainOut

COUNT, OPENED = {items}, Path({opened!r})
DOMAINS = tuple(f"domain-{{number}}" for number in range(6))
LABELS = tuple(f"label-{{number:03d}}" for number in range(1000))


@cache
def log_of(process):
    return os.open(OPENED / str(process), os.O_WRONLY | os.O_CREAT | os.O_APPEND)


def parts_of(name):
    domain, label, file = name.split("/")
    return domain, label, file.partition(".")[0]


@dataclass(frozen=True)
class Names:
    code_version = 1
    labels = LABELS

    def files(self):
        for number in range(COUNT):
            place = number * 6 // COUNT
            yield RawFile(f"{{DOMAINS[place]}}/{{LABELS[number % 1000]}}/{{number:08d}}.txt", 24, "1")

    def read(self, name):
        os.write(log_of(os.getpid()), b".")
        return f"the item {{name[-12:-4]}}".encode()

    def fault_of(self, data):
        return ""

    def decoded(self, item, data):
        return data.decode()

    def load(self, item):
        return self.decoded(item, self.read(item.source["file"]))

    @cached_property
    def reads(self):
        return Reads.of(self)

    @cached_property
    def _items(self):
        return ItemTable.of(map(self._item, self.files()), self.reads.folder, self.reads)

    def items(self):
        return self._items

    def _item(self, file):
        domain, label, stem = parts_of(file.name)
        return Item(
            key=f"{{label}}--{{stem}}--{{domain}}", label=label, origin=f"{{label}}/{{domain}}/{{stem}}",
            license="CC0-1.0", attribution="Nobody", nuisance=domain, source={{"file": file.name}},
        )

    def fingerprint(self):
        digest = hashlib.sha256()
        for hashed in self.items().digests():
            digest.update(hashed)
        return digest.hexdigest()


RECIPE = Recipe(
    name="many_items", family="bench", version="1.0.0", released="2026-11-28", creators=("Somebody",),
    title="Many items", summary="Names and tiny texts.", citation="None.", album=Names(),
    nuisance="domain", shift=Domains(names=DOMAINS), encoding=TextEncoding(),
    bases=(Base(name="all", summary="Every item."),), default_base="all",
    protocols=(LeaveOneDomainOut(test="domain-0"),),
)
"""
#: Seconds between two looks at the memory of all processes.
LOOK = 0.2
RANKS = 4


def family(root: int) -> list[int]:
    """A process and all its descendants."""
    pids, found = [root], list[int]()
    while pids:
        pid = pids.pop()
        found.append(pid)
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            pids += map(int, task.read_text().split())
    return found


def peak(pid: int, field: str = "VmHWM") -> int:
    """The most memory of a process, in MB: pages of mapped files count, which the system can drop."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition(f"{field}:")[2].split()[0]) >> 10


class Own(Thread):
    """Watches the memory of this process, pages of mapped files left out."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.most = 0
        self.start()

    def run(self) -> None:
        while True:
            self.most = max(self.most, peak(os.getpid(), "RssAnon"))
            time.sleep(LOOK / 4)


def run(commands: Sequence[Sequence[str]], log: Path) -> tuple[float, list[int], list[int]]:
    """Run commands at once; return seconds, and the peaks of the first processes and of all below them."""
    started = time.perf_counter()
    with log.open("wb") as errors:
        processes = [subprocess.Popen(command, stderr=errors, stdout=errors) for command in commands]
        firsts, below = defaultdict[int, int](int), defaultdict[int, int](int)
        while any(process.poll() is None for process in processes):
            for process in processes:
                try:
                    for pid in family(process.pid):
                        of = firsts if pid == process.pid else below
                        of[pid] = max(of[pid], peak(pid))
                except (OSError, IndexError):  # it has ended
                    continue
            time.sleep(LOOK)
    if any(process.returncode for process in processes):
        sys.exit(log.read_text(errors="replace")[-4000:])
    return time.perf_counter() - started, sorted(firsts.values()), sorted(below.values())


def commands_of(way: str, recipe: Path, out: Path) -> list[list[str]]:
    build = [sys.executable, "-m", "shiftdata", "build", str(recipe), "--out", str(out)]
    if way == "ranks":
        return [
            [*build, "--workers", "1", "--rank", str(rank), "--world", str(RANKS), "--wait"]
            for rank in range(RANKS)
        ]
    return [[*build, *(("--ray", "local") if way == "ray" else ("--workers", "2"))]]


def plan(recipe: Path, out: Path) -> None:
    """List, read and plan in this process, as a build does before it renders."""
    from builders.albums.reading import read_once
    from builders.make import assign
    from builders.make.canonical import check_protocols
    from builders.make.equal import listed
    from builders.make.render import plan_blocks
    from builders.parts import with_known
    from builders.recipe_files import load_recipe

    begun, own = time.perf_counter(), Own()

    def said(step: str) -> None:
        memory = f"at most {peak(os.getpid()):,} MB, {own.most:,} of its own"
        print(f"  {time.perf_counter() - begun:7.0f} s, {memory}: {step}", flush=True)

    loaded = load_recipe(str(recipe))
    reads = read_once(loaded.album, str(out / "spools"), out / "work")
    said("files read")
    loaded = replace(loaded, album=with_known(loaded.album, reads=reads))
    content = listed(loaded.album, out / "work")
    said(f"{len(content.items):,} items")
    fold_of = assign.folds(content.items)
    said("folds")
    assign.check_items(loaded, content.items)
    said("checked")
    check_protocols(loaded, content.items, fold_of)
    said("protocols")
    blocks = plan_blocks(loaded, ["all"], content.items, fold_of)["all"]
    said(f"{len(blocks):,} blocks, the first as {len(__import__('pickle').dumps(blocks[0])):,} bytes")


def main() -> None:
    """Build by every way; print what each took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument(
        "--way", nargs="+", choices=("alone", "ranks", "ray"), default=["alone", "ranks", "ray"]
    )
    parser.add_argument("--plan", action="store_true")
    parser.add_argument("--at", type=Path, default=Path("build/bench-items"))
    given = parser.parse_args()
    for way in ["plan"] if given.plan else given.way:
        out, opened = given.at / way, given.at / f"opened-{way}"
        for folder in (out, opened):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        recipe = given.at / "many_items.py"
        recipe.write_text(RECIPE.format(items=given.items, opened=str(opened.absolute())))
        if given.plan:
            plan(recipe, out)
        else:
            seconds, firsts, below = run(commands_of(way, recipe, out), given.at / f"{way}.log")
            manifest = json.loads((out / "shift/many_items/manifest.json").read_text())
            print(
                f"{way}: {seconds:,.0f} s, planners at most {firsts[-1]:,} MB, workers at most "
                f"{below[-1] if below else 0:,} MB, content {manifest['content_id'][:16]}",
                flush=True,
            )
        times = sum(path.stat().st_size for path in opened.iterdir())
        print(f"  {times:,} reads of {given.items:,} files", flush=True)
        shutil.rmtree(out)


if __name__ == "__main__":
    main()
