"""Publishing into a folder: whole, in one move, only what changed, and again after every fault."""

from __future__ import annotations

import errno
import json

import pytest

from builders.publish import folder as into_folder
from shiftdata.data.format.manifest import FILE_NAME
from shiftdata.data.places.catalog import Catalog
from shiftdata.evaluation.verify import verify
from tests.builders.publish.versions import PICTURE, SHARD, contents, manifest_is_true, rot, run_killed


def test_a_dataset_goes_below_a_folder_and_is_whole_there(publish, tiny, home):
    said = publish(tiny, "--to", "place")
    assert f"{home}/place/tiny: 28 files published" in said
    assert contents(home / "place/tiny") == contents(tiny)
    assert verify(home / "place/tiny") == []
    assert [path.name for path in (home / "place").iterdir()] == ["tiny"]
    assert "nothing to send, all 28 files are there" in publish(tiny, "--to", "place/tiny")


@pytest.mark.slow
def test_a_later_build_does_not_show_through(publish, copy, home):
    publish(copy, "--to", "place")
    before = contents(home / "place/tiny")
    with (copy / PICTURE).open("r+b") as stream:
        stream.write(b"edited in place")
    assert contents(home / "place/tiny") == before


def test_a_dry_run_says_what_would_happen_and_does_nothing(publish, tiny, home):
    before = contents(home)
    said = publish(tiny, "--to", "place", "--dry-run")
    assert f"+ {SHARD} (" in said
    assert said.index(SHARD) < said.index("README.md") < said.index(f"+ {FILE_NAME}")
    assert "nothing was changed" in said
    assert contents(home) == before


def test_only_what_changed_is_copied_what_went_is_deleted_and_foreign_files_stay(publish, tiny, later, home):
    publish(tiny, "--to", "place")
    (home / "place/tiny/notes").mkdir()
    (home / "place/tiny/notes/mine.txt").write_text("mine")
    (home / "place/tiny/.keep").write_text("")
    kept = (home / "place/tiny" / SHARD).stat().st_ino
    said = publish(later, "--to", "place", "--dry-run")
    changed = {line.split()[1] for line in said.splitlines() if line.startswith("    ~")}
    assert changed == {PICTURE, "README.md", FILE_NAME}
    assert "    - groups.png" in said
    assert "not of this dataset, left alone: .keep, notes/mine.txt" in said
    publish(later, "--to", "place")
    found = contents(home / "place/tiny")
    assert found == {**contents(later), "notes/mine.txt": b"mine", ".keep": b""}
    assert (home / "place/tiny" / SHARD).stat().st_ino == kept


def test_what_check_finds_fault_with_is_refused(publish, copy, home):
    shard = copy / SHARD
    shard.write_bytes(shard.read_bytes()[:-1])
    said = publish(copy, "--to", "place", fails=True)
    assert "is not published" in said
    assert SHARD in said
    assert not (home / "place").exists()


@pytest.mark.slow
def test_a_passed_check_holds_until_a_file_changes(publish, copy, home):
    assert "checked before" not in publish(copy, "--to", "place")
    assert "checked before" in publish(copy, "--to", "place")
    (copy / "README.md").write_bytes((copy / "README.md").read_bytes() + b"\n")
    assert "README.md: was edited" in publish(copy, "--to", "place", fails=True)


@pytest.mark.parametrize("number", [pytest.param(1, marks=pytest.mark.slow), 26])
def test_killed_while_a_file_is_copied_it_goes_on(publish, tiny, home, number):
    code = f"""
import builders.publish.folder as f
copy, calls = f._copy, []
def half(old, new, tell):
    calls.append(old)
    if len(calls) == {number}:
        new.write_bytes(old.read_bytes()[:100])
        os.kill(os.getpid(), signal.SIGKILL)
    copy(old, new, tell)
f._copy = half"""
    run_killed(code, str(tiny), "--to", "place", cwd=home)
    assert not (home / "place/tiny").exists()
    publish(tiny, "--to", "place")
    assert contents(home / "place") == {f"tiny/{path}": data for path, data in contents(tiny).items()}


@pytest.mark.slow
@pytest.mark.parametrize("moves", [0, 1, 2])
def test_killed_in_its_swap_it_ends_well(publish, tiny, later, home, moves):
    publish(tiny, "--to", "place")
    (home / "place/tiny/mine.txt").write_text("mine")
    code = f"""
from pathlib import Path
from builders.publish.folder import FolderTarget
def swap(self, work, rename=Path.rename):
    moves = [(self.folder, self._replaced), (work, self.folder)]
    for old, new in moves[:{moves}]:
        rename(old, new)
    os.kill(os.getpid(), signal.SIGKILL)
FolderTarget._swap = swap"""
    run_killed(code, str(later), "--to", "place", cwd=home)
    seen = home / "place/tiny"
    assert not seen.exists() or manifest_is_true(contents(seen))
    publish(later, "--to", "place")
    wanted = {**contents(later), "mine.txt": b"mine"}
    assert contents(home / "place") == {f"tiny/{path}": data for path, data in wanted.items()}


@pytest.mark.parametrize("path", [FILE_NAME, SHARD])
def test_what_rotted_in_a_folder_is_seen_and_copied_again(publish, tiny, home, path):
    publish(tiny, "--to", "place")
    rot(home / "place/tiny" / path)
    assert "files published" in publish(tiny, "--to", "place")
    assert contents(home / "place/tiny") == contents(tiny)
    assert "nothing to send" in publish(tiny, "--to", "place")


def test_a_disk_that_fills_up_is_reported_and_the_next_run_goes_on(publish, tiny, home, monkeypatch):
    copy, copied = into_folder._copy, []

    def filling(old, new, tell):
        if len(copied) == 10:
            raise OSError(errno.ENOSPC, "No space left on device")
        copied.append(old)
        copy(old, new, tell)

    monkeypatch.setattr(into_folder, "_copy", filling)
    said = publish(tiny, "--to", "place", fails=True)
    assert "no space left" in said
    assert "it goes on where it stopped" in said
    monkeypatch.setattr(into_folder, "_copy", copy)
    publish(tiny, "--to", "place")
    assert contents(home / "place/tiny") == contents(tiny)


@pytest.mark.slow
def test_places_that_cannot_be_are_refused(publish, tiny, copy, home):
    assert "lie in one another" in publish(copy, "--to", copy, fails=True)
    assert "lie in one another" in publish(copy, "--to", copy / "data", fails=True)
    (home / "file").write_text("")
    assert "is a file" in publish(tiny, "--to", "file/tiny", fails=True)
    assert "for repos on a Hub" in publish(tiny, "--to", "place", "--private", fails=True)
    assert "contains a password" in publish(tiny, "--to", "sftp://me:hush@lab/x", fails=True)


def test_a_catalog_gets_the_place(publish, tiny, later, home):
    publish(tiny, "--to", "one", "--catalog", "catalog.json")
    publish(tiny, "--to", "two", "--catalog", "catalog.json")
    publish(tiny, "--to", "two", "--catalog", "catalog.json")
    entry = Catalog.read(home / "catalog.json").entries["tiny"]
    assert entry.places == (f"{home}/one/tiny", f"{home}/two/tiny")
    said = publish(later, "--to", "one", "--catalog", "catalog.json")
    assert f"dropped, as of another version: {home}/two/tiny" in said
    raw = json.loads((home / "catalog.json").read_text())
    assert list(raw["tiny"]) == ["manifest", "places"]
    assert raw["tiny"]["places"] == [f"{home}/one/tiny"]
    assert raw["tiny"]["manifest"] != entry.manifest


def test_a_folder_that_a_web_server_shows_has_its_addresses(publish, tiny, home):
    publish(tiny, "--to", home / "www", "--web", "https://data.lab/shift")
    text = (home / "www/tiny/croissant.json").read_text()
    assert '"contentUrl": "https://data.lab/shift/tiny/data/' in text
    assert '"contentUrl": "data/' not in text
    assert verify(home / "www/tiny") == []
    assert "nothing to send" in publish(tiny, "--to", home / "www", "--web", "https://data.lab/shift/")
    assert "1 files published" in publish(tiny, "--to", home / "www")
    assert contents(home / "www/tiny") == contents(tiny)
