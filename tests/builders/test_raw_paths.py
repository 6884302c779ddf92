"""Pictures whose paths say everything: trajectories that are there twice, or not whole."""

from __future__ import annotations

from pathlib import Path

from builders.raw.found import Odd, Row
from builders.raw.paths import Paths
from builders.raw.tree import Tree

LAYOUT = Paths(
    pattern=r"(?P<domain>\w+)/(?P<severity>\d)/(?P<label>\w+)/(?P<origin>\w+)\.(?:jpg|png)",
    form="<domain>/<severity>/<label>/<origin>.jpg",
    stem="{origin} {severity}",
)


def write(folder: Path, *paths: str) -> Tree:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(b"a picture")
    return Tree(folder)


def test_a_severity_that_is_there_twice_counts_once_and_names_the_second(tmp_path):
    tree = write(tmp_path, *(f"fog/{step}/cat/a.jpg" for step in "123"), "fog/2/cat/a.png")
    found = [*LAYOUT.rows(tree)]
    assert [row.file for row in found if isinstance(row, Row)] == [f"fog/{step}/cat/a.jpg" for step in "123"]
    assert [odd.file for odd in found if isinstance(odd, Odd)] == ["fog/2/cat/a.png"]


def test_a_trajectory_without_a_severity_that_others_have_is_left_out(tmp_path):
    whole = [f"fog/{step}/cat/a.jpg" for step in "123"] + [f"snow/{step}/cat/a.jpg" for step in "123"]
    tree = write(tmp_path, *whole, "fog/1/cat/b.jpg", "fog/3/cat/b.jpg", "fog/2/dog/a.jpg")
    found = [*LAYOUT.rows(tree)]
    assert {row.file for row in found if isinstance(row, Row)} == {*whole}
    assert {odd.file: odd.why for odd in found if isinstance(odd, Odd)} == {
        "fog/1/cat/b.jpg": "its trajectory lacks severity 2",
        "fog/3/cat/b.jpg": "its trajectory lacks severity 2",
        "fog/2/dog/a.jpg": "its trajectory lacks severity 1, 3",
    }
