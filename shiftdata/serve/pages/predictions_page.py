"""A page of predictions as files: methods side by side, by group, and every example that any gets wrong."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from shiftdata.data.arrays import IntArray
from shiftdata.data.format.schema import SPLITS
from shiftdata.data.loading.sprites import for_browser, sprite
from shiftdata.errors import InputError, IntegrityError
from shiftdata.evaluation.metrics.records import plain
from shiftdata.evaluation.pages.shell import data_script, render, write_assets
from shiftdata.evaluation.tasks import Task
from shiftdata.evaluation.tasks.comparison import Comparison, p_value
from shiftdata.files import write_text
from shiftdata.serve.pages.pages import COLUMNS, SIDE
from shiftdata.serve.pages.rows import Rows

#: Examples of a part, a file: those of one page of a group.
PART = 36
#: Examples of each group that all methods get right, for comparison.
RIGHT = 12
#: Confusions that are listed, the most frequent ones.
MOST_CONFUSIONS = 5000
#: Whole pictures that are copied, those of the worst groups, and their bytes together.
MOST_WHOLE, WHOLE_BYTES = 4000, 100_000_000
#: A picture of more bytes is copied within that many pixels a side.
LARGE, LARGE_SIDE = 60_000, 512
#: Characters of a text.
MOST_TEXT = 5000


def predictions_page(
    task: Task,
    predictions: Mapping[str, Any],
    out: Path,
    name: str | None = None,
    *,
    remap: bool = False,
    gallery: str = "",
    begin: Callable[[str, int], Callable[[], object]] = lambda name, steps: lambda: None,
) -> Path:
    """Write a page on the predictions of some methods for a set of a task, and return its file.

    `predictions` are by method, in any form that `task.evaluate` takes (`remap` as there); `name` is the set,
    by default the first that tests. `gallery` is the address of the dataset's own page on a server, to which
    each picture then leads. `begin` gets the page's name and its steps, and returns the call of each.
    """
    if urlsplit(gallery).scheme not in ("", "http", "https", "file"):
        raise InputError(
            f"gallery={gallery!r} is no address of a dataset's page, such as https://host/datasets/a/b"
        )
    compared = Comparison.of(task, predictions, name, remap=remap)
    examples = compared.examples(RIGHT)
    steps = sum(-(-len(places) // PART) for places in examples.values())
    step = begin(f"{compared.set}, {len(predictions)} methods", steps)
    write_assets(out)
    for folder in ("data/groups", "data/whole"):
        shutil.rmtree(out / folder, ignore_errors=True)
        (out / folder).mkdir(parents=True)
    parts = Parts(compared, out)
    places = [examples[group] for group in compared.by_group]
    keys = iter(task.metadata.keys(compared.rows[np.concatenate(places)]))  # in one pass over the files
    for group, mine in zip(compared.by_group, places, strict=True):
        for _ in parts.write(group, mine, keys):
            step()
    confusions = {"rows": compared.confusions(MOST_CONFUSIONS), "most": MOST_CONFUSIONS}
    write_text(out / "data/confusions.js", data_script("confusions", confusions))
    results = [*compared.results.values()]
    known = {"here": "", "pictures": parts.has_pictures, "columns": COLUMNS, "part": PART, "gallery": gallery}
    text = render(
        "predictions.html",
        root="",
        page=compared.to_dict() | known | parts.dataset,
        title=", ".join(predictions),
        about=f"{results[0].dataset}, {results[0].task}; {compared.set}: {results[0].cells.counted}",
        verdict=compared.verdict(),
        worst=compared.worst(),
        pairs=[pair | {"p": p_value(pair["p"])} for pair in compared.pairs],
        failures={method: compared.failures(method) for method in predictions},
        notes=results[0].notes,
        figures={name: [result.figures[name] for result in results] for name in results[0].figures},
    )
    write_text(out / "index.html", text)
    return out / "index.html"


@dataclass
class Parts:
    """The files of a group's examples: their predictions, one picture of all, and some whole pictures."""

    compared: Comparison
    out: Path
    whole: int = field(default=0, init=False)
    whole_bytes: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        metadata = self.compared.task.metadata
        dataset = metadata.dataset  # None for a table of one's own, which has no examples
        self.rows = None if dataset is None else Rows.of(dataset, metadata.base)
        self.dataset = {} if dataset is None else {"dataset": dataset.manifest.name, "base": metadata.base}
        self.has_pictures = self.rows is not None and self.rows.has_pictures
        self.rows_of = self.compared.patterns()

    def write(self, group: int, places: IntArray, keys: Iterator[Any]) -> Iterator[None]:
        """Write the examples of a group, and yield after each part."""
        for part, start in enumerate(range(0, len(places), PART)):
            name, mine = f"data/groups/{group}-{part}", places[start : start + PART]
            data = self._index(group, places) if part == 0 else {}
            pictures = list[bytes]()
            if self.rows is not None and self.has_pictures:
                pictures = self.rows.examples(self.compared.rows[mine])
                (self.out / f"{name}.webp").write_bytes(sprite(pictures, SIDE, COLUMNS))
            columns = ([next(keys).as_py() for _ in mine], *self._columns(f"{group}-{start}", mine, pictures))
            data["examples"] = [list(example) for example in zip(*columns, strict=True)]
            script = data_script(name.removeprefix("data/"), data)
            (self.out / f"{name}.js").write_text(script, encoding="utf-8")
            yield

    def _index(self, group: int, places: IntArray) -> dict[str, Any]:
        """Return the examples and rows of a group by the methods that get them wrong, and its intervals."""
        wrong = self.compared.wrong[places].tolist()
        return {
            "patterns": [
                [which, count, self.rows_of[group][which]] for which, count in Counter(wrong).items()
            ],
            "origins": self.compared.by_group[group][self.compared.first][4],
            "ends": [of[2:4] for of in self.compared.by_group[group].values()],
        }

    def _columns(self, name: str, places: IntArray, pictures: Sequence[bytes]) -> tuple[list[Any], ...]:
        """Return of each example: predictions, severity, times drawn, split, its text or whole picture."""
        compared, at = self.compared, self.compared.rows[places]
        first = np.searchsorted(compared.rows, at)
        more: list[Any] = [self._whole(f"{name}-{place}", data) for place, data in enumerate(pictures)]
        if self.rows is not None and not self.has_pictures and self.rows.dataset.manifest.pixels_included:
            more = [_shown(text) for text in self.rows.texts(at)]
        return (
            np.stack([labels[places] for labels in compared.predicted.values()], axis=1).tolist(),
            plain(compared.severity[places]),
            (np.searchsorted(compared.rows, at, "right") - first).tolist(),
            [list(SPLITS)[split] for split in compared.task.metadata.columns["split"][at]],
            more or [None] * len(at),
        )

    def _whole(self, name: str, data: bytes) -> str | None:
        """Copy a picture as far as the limits go, and return its file."""
        if self.whole >= MOST_WHOLE or self.whole_bytes >= WHOLE_BYTES:
            return None
        with suppress(InputError, IntegrityError):
            shown, kind = for_browser(data, LARGE, LARGE_SIDE)
            file = f"whole/{name}.{kind.rpartition('/')[2]}"
            (self.out / "data" / file).write_bytes(shown)
            self.whole, self.whole_bytes = self.whole + 1, self.whole_bytes + len(shown)
            return file
        return None


def _shown(text: Any) -> Any:
    return f"{text[:MOST_TEXT]} ..." if isinstance(text, str) and len(text) > MOST_TEXT else text
