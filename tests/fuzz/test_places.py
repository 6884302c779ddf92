"""A damaged place: a fetch ends in exactly the right dataset or in an error, and verify misses nothing."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given

import shiftdata as sd
from shiftdata.data.places.catalog import VARIABLE, Catalog, Entry
from shiftdata.errors import ShiftdataError
from shiftdata.evaluation.verify import verify
from tests.fuzz.datasets import FORGERIES, honest, seal
from tests.fuzz.guard import SECRET, confined, no_reader_waits
from tests.fuzz.mutations import SEEDS, fuzzed


def contents(folder: Path) -> dict[str, object]:
    """What a folder has: files with their bytes, and everything else by its type."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() or path.is_symlink():
            found[name] = ("link", os.readlink(path)) if path.is_symlink() else path.read_bytes()
        elif not path.is_dir():
            found[name] = path.lstat().st_mode
    return found


def _bytes(change: Callable[[bytearray, random.Random], object]) -> Callable[[Path, random.Random], None]:
    def act(folder: Path, rng: random.Random) -> None:
        path = _file(folder, rng)
        data = bytearray(path.read_bytes())
        change(data, rng)
        path.write_bytes(data)

    return act


def _file(folder: Path, rng: random.Random) -> Path:
    return rng.choice(sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()))


def _flip(data: bytearray, rng: random.Random) -> None:
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _zeros(data: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(data) + 1)
    data[at : at + rng.choice([1, 512, 4096])] = bytes(min(512, len(data) - at))


def _swap(folder: Path, rng: random.Random) -> None:
    first, second = _file(folder, rng), _file(folder, rng)
    mine, theirs = first.read_bytes(), second.read_bytes()
    first.write_bytes(theirs)
    second.write_bytes(mine)


def _rename(folder: Path, rng: random.Random) -> None:
    path = _file(folder, rng)
    names = [path.name.upper(), f"{path.name}.part", "x", "e\u0301.md", "two\nlines"]
    path.rename(path.with_name(rng.choice(names)))


def _extra(folder: Path, rng: random.Random) -> None:
    beside = _file(folder, rng).parent
    names = [b"extra.txt", b"\x1b[2Jx", b"caf\xe9", b"two\nlines", b"train-00001-of-00002.parquet"]
    name = rng.choice(
        [*names, b".x", b".gitattributes", b".huggingface.yaml", b".train-00001-of-00002.parquet"]
    )
    Path(os.fsdecode(os.fsencode(beside) + b"/" + name)).write_bytes(b"extra")


def _replace(make: Callable[[Path], object]) -> Callable[[Path, random.Random], None]:
    def act(folder: Path, rng: random.Random) -> None:
        path = _file(folder, rng)
        path.unlink()
        make(path)

    return act


def _link_folder(folder: Path, rng: random.Random) -> None:
    below = rng.choice([path for path in sorted(folder.rglob("*")) if path.is_dir()])
    shutil.rmtree(below)
    below.symlink_to(rng.choice([folder.parent / "outside", below, folder, Path("/proc/self")]))


DAMAGE: dict[str, Callable[[Path, random.Random], None]] = {
    "flip": _bytes(_flip),
    "flips": _bytes(lambda data, rng: [_flip(data, rng) for _ in range(20)]),
    "cut": _bytes(lambda data, rng: data.__delitem__(slice(rng.randrange(len(data) + 1), None))),
    "empty": _bytes(lambda data, rng: data.clear()),
    "longer": _bytes(lambda data, rng: data.extend(rng.randbytes(rng.randrange(1, 99)))),
    "zeros": _bytes(_zeros),
    "lines": _bytes(lambda data, rng: data.__setitem__(slice(None), data.replace(b"\n", b"\r\n"))),
    "swap": _swap,
    "rename": _rename,
    "extra": _extra,
    "gone": _replace(lambda path: None),
    "folder": _replace(lambda path: path.mkdir()),
    "pipe": _replace(os.mkfifo),
    "link out": _replace(lambda path: path.symlink_to(path.parents[0].anchor + "etc/passwd")),
    "link to a secret": _replace(lambda path: path.symlink_to(_top(path) / "outside" / "secret.txt")),
    "link in a circle": _replace(lambda path: path.symlink_to(path)),
    "link to nothing": _replace(lambda path: path.symlink_to("nothing")),
    "device": _replace(lambda path: path.symlink_to("/dev/zero")),
    "folder as a link": _link_folder,
}


def _top(path: Path) -> Path:
    return next(parent.parent for parent in path.parents if parent.name == "bad")


def damage(good: Path, top: Path, seed: int) -> Path:
    """A copy of a dataset, `top/bad`, with one to three kinds of damage."""
    rng = random.Random(seed)
    bad = Path(shutil.copytree(good, top / "bad"))
    for _ in range(rng.choice([1, 1, 2, 3])):
        DAMAGE[rng.choice(sorted(DAMAGE))](bad, rng)
    return bad


@pytest.fixture(scope="module")
def top(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("places")
    (top / "outside").mkdir()
    (top / "outside" / "secret.txt").write_bytes(SECRET)
    (top / "outside" / "test.parquet").write_bytes(SECRET)
    for name in ("work", "config"):
        (top / name).mkdir()
    return top


pytestmark = pytest.mark.filterwarnings("ignore:.* is not the file that the manifest lists")

#: A whole dataset, and parts of it.
ASKED: tuple[dict[str, Any], ...] = (
    {},
    {},
    {"split": "test"},
    {"select": ["style=red,blue"]},
    {"config": "gf_k2_mu10"},
)


def fetch(top: Path, digest: str, *places: Path, **asked: Any) -> dict[str, object] | None:
    """What is in the target after a fetch from these places; None if it raised our error."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SHIFTDATA_HOME", raising=False)
        patch.setenv("XDG_CONFIG_HOME", str(top / "config"))
        patch.setenv(VARIABLE, str(top / "work" / "catalog.json"))
        patch.chdir(top / "work")
        Catalog({"toy": Entry(digest, tuple(map(str, places)))}).write(top / "work" / "catalog.json")
        try:
            with confined(top, top / "work", top / "config", *places), no_reader_waits(top / "bad"):
                sd.fetch("toy", offline=True, out="out", **asked)
            return contents(top / "work" / "out")
        except ShiftdataError:
            return None
        finally:
            written = contents(top / "work")
            shutil.rmtree(top / "work")
            (top / "work").mkdir()
            secrets = [name for name, data in written.items() if isinstance(data, bytes) and SECRET in data]
            assert secrets == [], "bytes from outside were copied"


def attack(tiny: Path, top: Path, seed: int) -> None:
    shutil.rmtree(top / "bad", ignore_errors=True)
    (top / "bad").mkdir()
    asked = ASKED[seed % len(ASKED)]
    digest = hashlib.sha256((tiny / "manifest.json").read_bytes()).hexdigest()
    wanted = fetch(top, digest, tiny, **asked)
    (top / "bad").rmdir()
    bad = damage(tiny, top, seed)
    assert wanted is not None
    assert fetch(top, digest, bad, tiny, **asked) == wanted
    assert fetch(top, digest, bad, **asked) in (None, wanted)


@pytest.mark.slow
@fuzzed(0.4)
@given(SEEDS)
def test_a_damaged_place_beside_a_good_one_gives_the_right_dataset(tiny, top, seed):
    attack(tiny, top, seed)


#: Changes of rows, columns, pictures and bytes after which the manifest may have the hashes of what is there.
FORGED = ("cells", "cells", "columns", "pictures", "bytes", "footer")


def one_change(bad: Path, rng: random.Random) -> str:
    """Change one thing in a dataset; return what."""
    if rng.random() < 0.5:
        kind = rng.choice(sorted(DAMAGE))
        DAMAGE[kind](bad, rng)
        return kind
    kind = rng.choice(FORGED)
    FORGERIES[kind](bad, rng)
    if rng.random() < 0.6:
        seal(bad)
        return f"{kind}, with its hash"
    return kind


def meaning(folder: Path) -> dict[str, object]:
    """What the files say, without what a publisher may state: `params`, prose and pictures of the card."""
    found = {
        path: data for path, data in contents(folder).items() if path not in ("groups.png", "preview.jpg")
    }
    if isinstance(card := found.get("README.md"), bytes):
        found["README.md"] = card.split(b"\n---\n")[0]
    for path in (path for path in found if path.startswith(("metadata/", "data/", "protocols/"))):
        with suppress(pa.ArrowException, OSError):
            table = pq.read_table(folder / path)
            rows = table.drop_columns([name for name in table.column_names if name == "params"])
            found[path] = [str(table.schema), rows.to_pylist()]
    return {path: said for path, said in found.items() if path != "manifest.json"}


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_verify_reports_every_change(part, tmp_path_factory, tmp_path):
    """1,000 changes, one at a time: what it passes over has the same meaning."""
    good = honest(tmp_path_factory, "stylized")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_bytes(SECRET)
    before, wanted, missed = contents(good), meaning(good), []
    for seed in range(250 * part, 250 * part + 250):
        bad = Path(shutil.copytree(good, tmp_path / "bad"))
        kind = one_change(bad, random.Random(seed))
        with no_reader_waits(bad):
            try:
                problems = [str(problem) for problem in verify(bad)]
            except ShiftdataError as error:
                problems = [str(error)]
        assert all(line.isprintable() for line in problems), (seed, kind, problems)
        if problems == [] and contents(bad) != before and (now := meaning(bad)) != wanted:
            missed.append((seed, kind, [path for path in wanted | now if now.get(path) != wanted.get(path)]))
        shutil.rmtree(bad) if bad.is_dir() and not bad.is_symlink() else bad.unlink()
    assert missed == []
