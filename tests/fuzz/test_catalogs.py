"""A forged catalog: it is read or refused as `ShiftdataError`, and makes nobody ask or write elsewhere."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import shiftdata as sd
from shiftdata.cli.app import main
from shiftdata.data.places.catalog import VARIABLE, Catalog, look_up
from shiftdata.errors import ShiftdataError
from tests.fuzz.guard import SECRET, confined
from tests.fuzz.mutations import SEEDS, fuzzed, json_text, mutated

#: Places that must not be asked offline, do not exist, or are none.
PLACES = [
    "http://192.0.2.1/toy", "https://user:word@192.0.2.1/toy", "hf+http://192.0.2.1/datasets/a/b", "s3://a/b",
    "hf://datasets/a/b", "hf://a", "hf+ftp://x/datasets/a/b", "memory://nothing", "file:///etc", "file://../x",
    "simplecache::http://192.0.2.1/x", "filecache::file:///etc", "zip://x::/etc/passwd", "local:///etc/passwd",
    "nothing://x", "::", "://", "data:,x", "github://a:b@c/d", "reference://x", "dir::x", "/etc/passwd",
    "~root", "~nobody-of-that-name", "/dev/stdin", "/proc/self/mem", "two\nlines", "\x1b[2J", "nul\0", " ",
    ".", "..", "-", "x" * 5000,
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("catalogs")
    (top / "secret.txt").write_bytes(SECRET)
    for name in ("work", "catalogs", "config"):
        (top / name).mkdir()
    shutil.copytree(tiny, top / "toy")
    return top


def catalog_of(folder: Path, seed: int) -> Any:
    rng = random.Random(seed)
    digest = hashlib.sha256((folder / "toy" / "manifest.json").read_bytes()).hexdigest()
    places = [*rng.choices(PLACES, k=rng.randrange(3)), str(folder / "toy")]
    rng.shuffle(places)
    entry = {"manifest": digest, "places": places}
    return {"toy": entry, "lab/other": {"manifest": rng.choice([digest, "0" * 64]), "places": places[:1]}}


def attack(folder: Path, text: str) -> None:
    path = folder / "catalogs" / "catalog.json"
    path.write_bytes(text.encode(errors="surrogatepass"))
    allowed = [folder / name for name in ("work", "catalogs", "config", "toy")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, str(path))
        patch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
        patch.chdir(folder / "work")
        with confined(folder, *allowed):
            for read in (lambda: Catalog.read(path), lambda: look_up("toy", offline=True)):
                with suppress(ShiftdataError):
                    read()
            assert main(["fetch", "toy", "--offline", "--quiet"]) in (0, 1)
            with suppress(ShiftdataError):
                sd.fetch("lab/other", offline=True, out="other")
    assert SECRET not in b"".join(
        entry.read_bytes() for entry in (folder / "work").rglob("*") if entry.is_file()
    )
    for entry in list((folder / "work").iterdir()):
        shutil.rmtree(entry)


@pytest.mark.slow
@fuzzed(3)
@given(SEEDS)
def test_a_forged_catalog_raises_nothing_but_our_errors(folder, seed):
    value = catalog_of(folder, seed)
    attack(folder, json_text(mutated(value, seed) if seed % 3 else value, seed))


@given(st.text())
@example("[" * 100_000)
@example('{"toy": ' * 50_000)
@example('{"toy": NaN}')
@example('{"toy": ' + "9" * 5000 + "}")
@example('{"toy": {"manifest": "\\ud800", "places": ["\\ud800"]}}')
@example('{"\\u001b[2J": {}}')
def test_any_text_is_a_catalog_or_our_error(text):
    with suppress(ShiftdataError):
        Catalog.from_json(text)


def test_what_is_printed_of_a_forged_catalog_has_no_control_character(folder, capsys):
    entry = {"manifest": "0" * 64, "places": ["/no\x1b[2Jwhere", "a\nb", "hf://datasets/a\x1b[2J/b"]}
    attack(folder, json.dumps({"toy": entry}))
    printed = capsys.readouterr()
    assert "\x1b" not in printed.out + printed.err
