"""The report of `make real`, and the states that docs and `raw list` show."""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from statistics import mean
from typing import Any

from builders.raw.sources import READ_ON, STATES, sources, states
from builders.recipe_files import load_recipe
from shiftdata.tables import markdown

PAGE = Path(__file__).resolve().parents[2] / "docs/raw_datasets.md"
BEGIN, END = "<!-- written by scripts/real -->", "<!-- end -->"
COLUMNS = ("recipe", "raw", "state", "part", "date", "content_id", "rows", "figures", "by")
STEPS = ("check", "build", "verify", "load", "tasks")
RUN = re.compile(r"(.+): (.+), (\d+) steps, seed \d+")
Records = Mapping[str, Mapping[str, Any]]


def report_of(sets: Sequence[Any], records: Records, files: Path) -> str:
    """Everything that is recorded, in Markdown, and what is not here."""
    lines = ["# Real files", "", *_table([real for real in sets if real.name in records], records)]
    for real in sets:
        place = files / real.name
        if (record := records.get(real.name)) is None:
            lines += ["", f"## {real.name}: not read", "", f"To have it, {real.how(place)}."]
            continue
        tree = record["tree"]
        known = {"": "not compared", tree["sha256"]: "as known"}.get(real.tree, "other files than known")
        lines += ["", f"## {real.name}", ""]
        lines += [f"- files: {tree['files']:,}, {tree['bytes']:,} bytes, {known}: `{tree['sha256']}`"]
        lines += [f"- {name}: {record[name]}" for name in STEPS if name in record]
        lines += [f"- failed: {record['failed']}"] if "failed" in record else []
        lines += [f"- seconds: {record.get('seconds', {})}"]
    return "\n".join(lines) + "\n"


def write_states(sets: Sequence[Any], records: Records) -> None:
    """Write the states of sets that were read from their files; those of sets without a record stay."""
    recorded = {state["recipe"]: dict(state) for state in states()}
    for real in sets:
        record = records.get(real.name, {})
        if "tasks" in record and "failed" not in record:
            recorded[real.recipe] = {
                "recipe": real.recipe,
                "raw": load_recipe(real.recipe).album.name,
                "state": "part" if real.part else "real files",
                "part": real.part,
                "date": record["build"]["date"],
                "content_id": record["build"]["content_id"],
                "rows": sum(record["check"]["examples"].values()),
                "figures": _figures(real, record),
                "by": "make real",
            }
    with STATES.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, delimiter="\t", lineterminator="\n")
        writer.writeheader()
        writer.writerows(recorded[name] for name in sorted(recorded))
    states.cache_clear()
    PAGE.write_text(page_with(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def page_with(page: str) -> str:
    """The page of public datasets with the states: in a table, and in the last column of all datasets'."""
    head = ["recipe", "read", "date", "examples", "content_id", "figures"]
    rows = [
        [
            f"`{state['recipe']}`",
            state["part"] or state["state"],
            state["date"],
            f"{int(state['rows']):,}",
            f"`{state['content_id'][:12]}`",
            state["figures"],
        ]
        for state in states()
    ]
    lines = [_with_state(line) if line.startswith("| [`") else line for line in page.split("\n")]
    before, _, rest = "\n".join(lines).partition(BEGIN)
    table = markdown(head, rows).replace("--:", "---", 2).replace("--: | --: | --: |", "--: | --- | --- |")
    return f"{before}{BEGIN}\n{table}\n{END}{rest.partition(END)[2]}"


def _with_state(line: str) -> str:
    """A line of the table of all datasets; of a family, the state of the set that was read best."""
    family = line.split("`")[1].replace("<id>", "*")
    read = {source.read_on for name, source in sources().items() if fnmatchcase(name, family)}
    cells = line.strip("| ").split(" | ")[:6]
    return f"| {' | '.join([*cells, min(read, key=READ_ON.index)])} |"


def _table(sets: Sequence[Any], records: Records) -> Iterator[str]:
    """A line for each set that was read."""
    head = ["set", "read", "files", "problems", "examples", "content_id", "verify", "figures"]
    rows = []
    for real in sets:
        record = records[real.name]
        done = "verify" in record
        rows.append([
            real.name,
            real.part or "whole",
            f"{record['tree']['files']:,}",
            str(len(record["check"]["what"])) if "check" in record else "-",
            f"{sum(record['check']['examples'].values()):,}" if "check" in record else "-",
            record["build"]["content_id"][:12] if "build" in record else "-",
            (f"{len(record['verify'])} problems" if record["verify"] else "well") if done else "-",
            "failed" if "failed" in record else _figures(real, record),
        ])  # fmt: skip
    yield markdown(head, rows)


def _figures(real: Any, record: Mapping[str, Any]) -> str:
    """The figures of each task and method, over its seeds, next to those that others published."""
    values = defaultdict[str, dict[tuple[str, str], list[float]]](lambda: defaultdict(list))
    for name, value in record.items():
        if run := RUN.fullmatch(name):
            values[run[1]][run[2], run[3]].append(value)
    tasks = []
    for task, methods in values.items():
        texts = [
            f"{method} {mean(runs):.3f} ({steps} steps" + (f", {len(runs)} seeds)" if len(runs) > 1 else ")")
            for (method, steps), runs in methods.items()
        ]
        published = real.published.items() if task == next(iter(values)) else ()
        texts += [f"{method} published {text}" for method, text in published]
        tasks.append(f"{task}, {real.metric}: {'; '.join(texts)}")
    return ". ".join(tasks)
