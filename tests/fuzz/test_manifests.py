"""A forged manifest: each reader works or raises `ShiftdataError`, and stays inside the dataset's folder."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from hashlib import sha256
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import shiftdata as sd
from shiftdata.cli.app import main
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.loading.byte_ranges import ExampleReader
from shiftdata.errors import IntegrityError, ShiftdataError
from shiftdata.evaluation.verify import verify
from tests.fuzz.guard import SECRET, confined
from tests.fuzz.mutations import DEEP, SEEDS, fuzzed, json_text, mutated


@pytest.fixture(scope="module")
def forged(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy whose manifest each example replaces, in a folder with a secret beside it."""
    top = tmp_path_factory.mktemp("forged")
    (top / "secret.txt").write_bytes(SECRET)
    (top / "work").mkdir()
    return Path(shutil.copytree(tiny, top / "shift" / "tiny"))


def sealed(value: Any, text: str) -> str:
    """The text of a manifest with the checksum that it must have, as a forger writes it."""
    if not isinstance(value, dict) or not text.startswith("{\n"):
        return text
    body = text.removeprefix("{\n")
    return f'{{\n "checksum": "{sha256(body.encode(errors="surrogatepass")).hexdigest()}",\n{body}'


def _command(*arguments: str) -> None:
    out = StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        status = main(list(arguments))
    assert status in (0, 1, 2)
    assert "Traceback" not in out.getvalue()
    assert "\x1b" not in out.getvalue()


def _fetch(folder: Path, **options: Any) -> None:
    sd.fetch(folder, out=folder.parent.parent / "work" / "out", offline=True, **options)


def _batch(folder: Path) -> None:
    opened = sd.info(folder)
    with ExampleReader(folder, opened.default_base) as reader:
        reader.read([0, 1])


def _load(folder: Path) -> None:
    next(iter(sd.load_dataset(str(folder), "metadata", split="test", streaming=True)))


#: What each example tries, and what only a share of them does, since it takes long.
READERS: dict[str, Callable[[Path], object]] = {
    "info": lambda folder: _command("info", str(folder)),
    "task": lambda folder: sd.task(folder, "group-fairness", k=2, mu=0.1),
    "canonical": lambda folder: sd.task(folder, base="mini"),
    "files": lambda folder: verify(folder, deep=False),
    "batch": _batch,
}
SLOW: dict[str, Callable[[Path], object]] = {
    "verify": lambda folder: _command("verify", str(folder), "--quiet"),
    "load": _load,
    "part": lambda folder: _fetch(folder, split="test"),
    "whole": _fetch,
}


def attack(forged: Path, value: Any, text: str, readers: dict[str, Callable[[Path], object]]) -> None:
    work = forged.parent.parent / "work"
    text = sealed(value, text)
    (forged / "manifest.json").write_bytes(text.encode(errors="surrogatepass"))
    with suppress(ShiftdataError):
        Manifest.from_json(text)
    for read in readers.values():
        with (
            confined(forged.parent.parent, forged, work),
            warnings.catch_warnings(action="ignore"),
            suppress(ShiftdataError),
        ):
            read(forged)
    assert SECRET not in b"".join(path.read_bytes() for path in work.rglob("*") if path.is_file())
    for path in list(work.iterdir()):
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def manifest_of(folder: Path) -> dict[str, Any]:
    raw: dict[str, Any] = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    raw.pop("checksum", None)
    return raw


@pytest.mark.slow
@fuzzed(2)
@given(SEEDS)
def test_a_forged_manifest_raises_nothing_but_our_errors(tiny, forged, seed):
    value = mutated(manifest_of(tiny), seed)
    attack(forged, value, json_text(value, seed), READERS)


@fuzzed(0.2)
@given(SEEDS)
def test_a_forged_manifest_is_verified_loaded_and_fetched_without_a_traceback(tiny, forged, seed):
    value = mutated(manifest_of(tiny), seed, most=1)
    attack(forged, value, json_text(value, seed), SLOW)


def regressions() -> Iterator[tuple[str, Callable[[dict[str, Any]], object]]]:
    """Changes of a manifest that were once let through."""
    yield "a name that is a number", lambda raw: raw.update(name=7)
    yield "sizes as texts", lambda raw: raw["bases"][0]["splits"]["test"].update(rows="many")
    yield "no splits", lambda raw: raw["bases"][1].update(splits={})
    yield "a version that is a path", lambda raw: raw.update(version="../../x")
    yield "a base that is a path", lambda raw: raw["bases"][0].update(name="../../elsewhere")
    yield "an unknown field", lambda raw: raw.update(surprise=1)
    yield "half a surrogate pair", lambda raw: raw.update(title="\ud800")
    yield "not a number", lambda raw: raw.update(severities=[float("nan")])
    yield "nesting", lambda raw: raw.update(sample={"a": DEEP})
    yield (
        "a file named like a folder",
        lambda raw: raw["files"].update(data=next(iter(raw["files"].values()))),
    )


@pytest.mark.parametrize("change", [pytest.param(change, id=name) for name, change in regressions()])
def test_regressions(change, tiny, forged):
    raw = manifest_of(tiny)
    change(raw)
    text = json.dumps(raw, indent=1).replace(json.dumps(DEEP), "[" * 100_000 + "]" * 100_000)
    with pytest.raises(ShiftdataError):
        Manifest.from_json(sealed(raw, text))
    attack(forged, raw, text, READERS)


def test_a_part_of_which_no_data_file_is_listed(tiny, forged):
    raw = manifest_of(tiny)
    raw["files"] = {
        path: file for path, file in raw["files"].items() if not path.startswith("data/mini/test-")
    }
    (forged / "manifest.json").write_text(sealed(raw, json.dumps(raw, indent=1)))
    with pytest.raises(IntegrityError, match="does not list data/mini/test-, which a part needs"):
        _fetch(forged, split="test")


@given(
    st.one_of(
        st.text(), st.sampled_from(["[" * 100_000, '{"format": ' * 50_000, "NaN", "9" * 5000, '"\\ud800"'])
    )
)
@example('{"format": 1}')
def test_any_text_is_a_manifest_or_our_error(text):
    with suppress(ShiftdataError):
        Manifest.from_json(text)
