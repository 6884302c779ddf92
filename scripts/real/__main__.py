"""Read real datasets from the files on this disk, and compare what comes out: what `make real` runs.

    python scripts/real                     every set whose files are in build/real/<name>
    python scripts/real --only pacs         one of them; the others keep their records
    python scripts/real --steps 2000 --seeds 3 --method erm --method coral
    python scripts/real --write             also write the states that docs and `raw list` show

`sets.toml` says where each set comes from. Nothing is downloaded: clone the repository that a set names, and
link its folder where the script says. Each step is recorded when it is done, and a second run goes on; files
that have changed, or `--again`, start a set from the beginning. The result is build/real/report.md.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
import tomllib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from report import report_of, write_states

import shiftdata as sd
from builders.raw.checking import check
from builders.raw.sources import source, states
from builders.recipe_files import load_recipe, recipe_names

ROOT = Path(__file__).resolve().parents[2]
TABLE = Path(__file__).parent / "sets.toml"
Record = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class RealSet:
    """Real files: where they are from, what is known of them, what is done with them.

    `path` is the folder of the repository that has them, and `get` says how to get what is in no repository.
    `tree` is the hash that `tree_of` gives of the `files` of a pattern. `part` says which part of the dataset
    they are, if not the whole. `published` are figures of others for the first task, by method.
    """

    name: str
    recipe: str
    licence: str
    repository: str = ""
    path: str = ""
    get: str = ""
    files: str = "*"
    part: str = ""
    tree: str = ""
    tasks: Sequence[str] = ()
    metric: str = "accuracy"
    methods: Sequence[str] = ("erm",)
    published: Mapping[str, str] = field(default_factory=dict)

    def how(self, place: Path) -> str:
        """Say how a user gets the files."""
        inside = f"its folder {self.path}" if self.path else "it"
        clone = f"clone the GitHub repository {self.repository} and link {inside}"
        return f"{self.get or clone} as {place} (licence: {self.licence})"


def real_sets() -> list[RealSet]:
    return [RealSet(name=name, **entry) for name, entry in tomllib.loads(TABLE.read_text()).items()]


def tree_of(place: Path, pattern: str) -> dict[str, Any]:
    """Count and hash files; hidden ones do not count.

    The hash is that of `find -L . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum`.
    """
    paths = (Path(folder) / name for folder, _, names in os.walk(place, followlinks=True) for name in names)
    below = ((f"./{path.relative_to(place).as_posix()}", path) for path in paths if path.match(pattern))
    files = sorted((name, path) for name, path in below if "/." not in name)
    whole, size = hashlib.sha256(), 0
    for name, path in files:
        data = path.read_bytes()
        size += len(data)
        whole.update(f"{hashlib.sha256(data).hexdigest()}  {name}\n".encode())
    return {"files": len(files), "bytes": size, "sha256": whole.hexdigest()}


def main() -> int:
    options = _options()
    sets = real_sets()
    if unknown := set(options.only) - {real.name for real in sets}:
        sys.exit(f"no real set {', '.join(unknown)}; there are {', '.join(real.name for real in sets)}")
    records = {}
    for real in sets:
        place, file = options.files / real.name, options.out / "records" / f"{real.name}.json"
        if not options.only or real.name in options.only:
            if not place.exists():
                print(f"{real.name}: not here. To have it, {real.how(place)}", flush=True)
            elif real.recipe not in recipe_names():
                print(f"{real.name}: no recipe {real.recipe} reads it", flush=True)
            else:
                Reader(real, place.resolve(), file, options).run()
        if file.exists():
            records[real.name] = json.loads(file.read_text())
    path = options.out / "report.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(report_of(sets, records, options.files), encoding="utf-8")
    if options.write:
        write_states(sets, records)
    print(f"the report is {path}")
    return 1 if any("failed" in record for record in records.values()) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add, out = parser.add_argument, Path("build/real")
    here = Path(os.environ.get("SHIFTDATA_REAL", out))
    add("--only", action="append", default=[], metavar="NAME", help="only this set; repeat it")
    add("--files", type=Path, default=here, help="where the files are: $SHIFTDATA_REAL")
    add("--out", type=Path, default=out, help="for builds, records, the report")
    add("--method", action="append", dest="methods", help="in place of those of the set; repeat it")
    add("--steps", type=int, default=300, help="of each training; 0 trains nothing")
    add("--seeds", type=int, default=1, help="how many of each training")
    add("--again", action="store_true", help="forget the records of earlier runs")
    add("--write", action="store_true", help="write the states that docs and `raw list` show")
    return parser.parse_args()


class Reader:
    """The steps of one set; what is done is in its record."""

    def __init__(self, real: RealSet, place: Path, file: Path, options: argparse.Namespace) -> None:
        self.real, self.place, self.file, self.options = real, place, file, options
        self.record: Record = json.loads(file.read_text()) if file.exists() and not options.again else {}
        self.folder = options.out / "shift" / real.recipe

    def run(self) -> None:
        """Do what is not done; an error ends this set alone."""
        tree, steps = tree_of(self.place, self.real.files), self.options.steps
        if self.record.get("tree") != tree or not self.folder.exists():
            self.record = {"tree": tree}
        self.record.pop("failed", None)
        if self.real.tree not in ("", tree["sha256"]):
            self.say(f"other files than were read before: {tree['sha256'][:12]}, not {self.real.tree[:12]}")
        try:
            for step in (self.check, self.build, self.verify, self.load, self.tasks):
                self.do(step.__name__, step)
            for task, run in product(self.record["tasks"] if steps else (), self.runs()):
                self.do(f"{task}: {run[0]}, {steps} steps, seed {run[1]}", partial(self.train, task, *run))
        except Exception as error:  # whatever it is, the other sets are read
            self.record["failed"] = f"{type(error).__name__}: {error}"
            self.say(f"failed: {self.record['failed']}")
        self.save()

    def do(self, name: str, step: Callable[[], Any]) -> None:
        if name in self.record:
            return
        self.say(name)
        began = time.monotonic()
        self.record[name] = step()
        self.record.setdefault("seconds", {})[name] = round(time.monotonic() - began, 1)
        self.save()

    def say(self, text: str) -> None:
        print(f"{self.real.name}: {text}", flush=True)

    def save(self) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        part = self.file.with_suffix(".part")
        part.write_text(json.dumps(self.record, indent=1) + "\n", encoding="utf-8")
        part.replace(self.file)

    def check(self) -> Record:
        album = load_recipe(self.real.recipe).album
        report = check(source(self.real.recipe), album, self.place)
        return {**report.line(album.name, read=False), "what": [problem.what for problem in report.problems]}

    def build(self) -> Record:
        """Build as a user does, with a progress bar."""
        where = ["--raw", str(self.place), "--out", str(self.options.out), "--replace"]
        command = [sys.executable, "-m", "builders", "build", self.real.recipe, *where]
        subprocess.run(command, check=True)
        manifest = sd.open_dataset(self.folder).manifest
        for state in states():
            if state["recipe"] == self.real.recipe and state["content_id"] != manifest.content_id:
                self.say(f"another dataset than was recorded on {state['date']}: {state['content_id'][:12]}")
        return {"content_id": manifest.content_id, "date": datetime.now(UTC).date().isoformat()}

    def verify(self) -> list[str]:
        return list(map(str, sd.verify(self.folder)))

    def load(self) -> Record:
        """Load it with plain `datasets`; count the rows of each split."""
        import datasets  # a second, and torch below seconds, that a run with nothing to do does without

        loaded = datasets.load_dataset(str(self.folder), cache_dir=str(self.options.out / "cache"))
        return {split: rows.num_rows for split, rows in loaded.items()}

    def tasks(self) -> Record:
        """Count the sets of each task; a part of a dataset may be too small for any."""
        splits = [split.name for split in sd.open_dataset(self.folder).manifest.canonical_splits]
        tasks = {name: sd.task(self.folder, name) for name in self.real.tasks or splits[:1]}
        return {
            name: {key: f"{len(rows):,} ({rows.role})" for key, rows in task.sets.items()}
            for name, task in tasks.items()
        }

    def runs(self) -> Iterator[tuple[str, int]]:
        """Yield each method with each seed, and the plain script once."""
        yield from product(self.options.methods or self.real.methods, range(self.options.seeds))
        yield "plain", 0

    def train(self, name: str, method: str, seed: int) -> float:
        task, steps = sd.task(self.folder, name), self.options.steps
        if method == "plain":
            from plain import plain_predictions

            with warnings.catch_warnings(action="ignore"):
                predictions = plain_predictions(task, self.folder, self.options.out / "cache", steps)
            return float(task.evaluate(predictions)[self.real.metric])
        run = sd.train(task, method, steps=steps, seed=seed)
        return float(run.evaluate()[self.real.metric])


if __name__ == "__main__":
    sys.exit(main())
