"""A dataset as a benchmark of the Hub: `eval.yaml`, and the leaderboard that a server shows."""

from __future__ import annotations

from shiftdata.data.format.front_matter import yaml_lines
from shiftdata.data.format.manifest import Manifest

#: The Hub takes an `eval.yaml` only if its list has this: `EVALUATION_FRAMEWORKS` in huggingface.js.
FRAMEWORK = "shiftdata"
#: `<name>.leaderboard.json` lies next to a dataset's folder: it is not a file of the dataset.
LEADERBOARD = ".leaderboard.json"


def benchmark_tasks(manifest: Manifest) -> dict[str, tuple[str, str]]:
    """Return the config and the split that load the first test set of each canonical split.

    A split that only keys can express has no config, and is no task.
    """
    tasks: dict[str, tuple[str, str]] = {}
    known = manifest.configs
    for split in manifest.canonical_splits:
        sets = split.sets.items()
        tests = [
            name for name, rows in sets if rows.roles[0] == "test" and rows.size.rows and name != "oracle"
        ]
        if split.name in known and tests:
            tasks[split.name] = (split.name, tests[0])
    return tasks


def render_benchmark(manifest: Manifest) -> str:
    """Render eval.yaml; empty for tars, and where no canonical split is a task."""
    tasks = {} if manifest.is_webdataset else benchmark_tasks(manifest)
    fields = {
        "name": manifest.title,
        "description": manifest.summary,
        "evaluation_framework": FRAMEWORK,
        "tasks": [{"id": name, "config": config, "split": of} for name, (config, of) in tasks.items()],
    }
    return "\n".join([*yaml_lines(fields), ""]) if tasks else ""
