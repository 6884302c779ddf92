"""A raw dataset as large as a real one, with content of its own: make it, list, check and build it.

    python scripts/bench/raw.py [--recipe domainnet] [--files 60000] [--at folder] [--keep]

Without --files there are as many as in the real one: 586,575 pictures of DomainNet (six zip files and twelve
lists, 345 classes, 32 pixels), 455,954 patches of Camelyon17 (a tar, 12 pixels), 448,000 comments (a table),
104,000 pictures of CIFAR-10 in arrays; pictures of ImageNet in folders (entity13: give --files, say 100000).
Each step is a process of its own; its peak memory is what the system counted, that of its largest worker
stands beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from raw_trees import TREES

from builders.make.build import build
from builders.raw.album import RawAlbum
from builders.raw.checking import check
from builders.raw.sources import source
from builders.recipe_files import load_recipe

WORKERS = 2
#: Seconds between two looks at the disk.
LOOK = 1.0


def album_of(recipe: str, raw: Path) -> RawAlbum:
    """The album at a place."""
    album = load_recipe(f"{recipe}={raw}").album
    assert isinstance(album, RawAlbum)
    return album


def list_step(recipe: str, raw: Path, out: Path) -> int:
    """The files of all archives, and the items."""
    return len(album_of(recipe, raw).items())


def check_step(recipe: str, raw: Path, out: Path) -> int:
    """What `raw check` does."""
    return check(source(recipe), album_of(recipe, raw), raw).counts[""].total()


def read_step(recipe: str, raw: Path, out: Path) -> int:
    """What `raw check --read` does."""
    return check(source(recipe), album_of(recipe, raw), raw, read=True).counts[""].total()


def build_step(recipe: str, raw: Path, out: Path) -> int:
    """From the raw files to a dataset."""
    build(f"{recipe}={raw}", out, workers=WORKERS, quiet=True)
    return 0


STEPS: Mapping[str, Callable[[str, Path, Path], int]] = {
    "list": list_step,
    "check": check_step,
    "check --read": read_step,
    "build": build_step,
}


def measured(step: str, recipe: str, at: Path) -> str:
    """Seconds, also of processors, the peak of the process and its largest worker, the most GB on disk."""
    start, most, worker = time.perf_counter(), 0, 0.0
    command = [sys.executable, __file__, "--step", step, "--recipe", recipe, "--at", str(at)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            most, worker = max(most, bytes_of(at / "out")), max(worker, largest_child(process.pid))
            time.sleep(LOOK if time.perf_counter() - start > 10 * LOOK else LOOK / 10)
        seconds = time.perf_counter() - start
        output = process.stdout.read() if process.stdout else ""
    if process.returncode:
        raise SystemExit(f"{step} ended with status {process.returncode}")
    processor, own = json.loads(output.splitlines()[-1])
    most = max(most, bytes_of(at / "out"))
    workers = f", {worker:.2f} GB a worker; at most {most / 1e9:.2f} GB written" if step == "build" else ""
    return f"{step:<12}{seconds:9.1f} s, {processor:7.1f} s of processors, {own:5.2f} GB{workers}"


def largest_child(process: int) -> float:
    """The most GB that a child has had so far.

    The system counts a child's own peak from what its parent had when it began: this is from its memory.
    """
    most = 0
    for children in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            for child in children.read_text().split():
                text = Path(f"/proc/{child}/status").read_text()
                most = max(most, *(int(kb) for kb in re.findall(r"VmHWM:\s*(\d+)", text)), 0)
        except OSError:
            continue
    return most / 1e6


def bytes_of(folder: Path) -> int:
    """The bytes of all files below a folder, which may come and go."""
    total = 0
    for where, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(os.path.join(where, name)).st_size
            except FileNotFoundError:
                continue
    return total


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--recipe", default="domainnet", choices=TREES)
    parser.add_argument("--files", type=int, help="[default: as many as the real one has]")
    parser.add_argument("--at", type=Path, default=Path("build/bench_raw"))
    parser.add_argument("--steps", default=",".join(STEPS), help="which of them, with a comma between")
    parser.add_argument("--keep", action="store_true", help="leave the files there")
    parser.add_argument("--step", help=argparse.SUPPRESS)
    options = parser.parse_args()
    at = options.at.absolute()
    if options.step == "make":
        TREES[options.recipe](at / "raw", options.files)
        return
    if options.step:
        STEPS[options.step](options.recipe, at / "raw", at / "out")
        used = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        processor = sum(one.ru_utime + one.ru_stime for one in used)
        print(json.dumps([processor, used[0].ru_maxrss / 1e6]))
        return
    at.mkdir(parents=True, exist_ok=True)
    try:
        start = time.perf_counter()
        if not (at / "raw").exists():
            facts = source(options.recipe)
            files = options.files or facts.counts[0].all or 0
            (at / "raw").mkdir()
            # In a process of its own: the peaks of those that follow begin with what this one has.
            make = ["--step", "make", "--recipe", options.recipe, "--at", str(at), "--files", str(files)]
            subprocess.run([sys.executable, __file__, *make], check=True)
            made = f"{files:,} {facts.noun[1]}"
            print(f"make          {time.perf_counter() - start:7.1f} s for {made}", flush=True)
        print(f"raw files     {bytes_of(at / 'raw') / 1e9:7.2f} GB")
        for step in options.steps.split(","):
            print(measured(step, options.recipe, at), flush=True)
        print(f"dataset       {bytes_of(at / 'out' / 'shift') / 1e9:7.2f} GB")
    finally:
        if not options.keep:
            shutil.rmtree(at)


if __name__ == "__main__":
    main()
