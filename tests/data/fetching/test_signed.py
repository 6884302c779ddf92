"""Signed catalogs and manifests: what a reader who pinned a key takes, and what it refuses."""

from __future__ import annotations

import base64
import hashlib
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import shiftdata as sd
from shiftdata.cli.app import main
from shiftdata.data.places.catalog import Catalog, Entry, look_up
from shiftdata.data.places.signatures import SIGNATURE, pinned
from shiftdata.errors import InputError, IntegrityError, ShiftdataError
from tests.data.fetching.conftest import contents, copied, flip
from tests.signing import Key


class Publisher:
    """A folder with a signed catalog, a key that readers pinned, and one that they did not."""

    def __init__(self, folder: Path, dataset: Path) -> None:
        self.folder, self.dataset = folder, dataset
        self.catalog, self.signature = folder / "catalog.json", folder / "catalog.json.minisig"
        self.key, self.stranger = Key(folder / "lab.pub"), Key(folder / "stranger.pub")
        self.write()
        self.key.sign(self.catalog)

    def write(self, *places: str, digest: str | None = None, name: str = "toy") -> None:
        digest = digest or hashlib.sha256((self.dataset / "manifest.json").read_bytes()).hexdigest()
        Catalog({name: Entry(digest, places or (str(self.dataset),))}).write(self.catalog)


@pytest.fixture
def publisher(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Publisher:
    (tmp_path / "lab").mkdir()
    published = Publisher(tmp_path / "lab", tiny)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("SHIFTDATA_CATALOG", str(published.catalog))
    monkeypatch.setenv("SHIFTDATA_KEY", published.key.public)
    return published


def forge_key_number(lab: Publisher) -> None:
    """A stranger's signature that names the pinned key."""
    ours = base64.b64decode(lab.signature.read_bytes().splitlines()[1])
    lab.write("/elsewhere")
    lines = lab.stranger.sign(lab.catalog).read_bytes().splitlines()
    theirs = base64.b64decode(lines[1])
    lines[1] = base64.b64encode(theirs[:2] + ours[2:10] + theirs[10:])
    lab.signature.write_bytes(b"\n".join(lines) + b"\n")


def signed_manifest_as_catalog(lab: Publisher) -> None:
    lab.catalog.write_bytes((lab.dataset / "manifest.json").read_bytes())
    lab.key.sign(lab.catalog)


ATTACKS: dict[str, tuple[Callable[[Publisher], object], str]] = {
    "no signature": (lambda lab: lab.signature.unlink(), "is not signed: there is no catalog.json.minisig"),
    "an empty signature": (lambda lab: lab.signature.write_bytes(b""), "no signature of minisign"),
    "a signature of noise": (lambda lab: lab.signature.write_bytes(bytes(range(256))), "no signature of"),
    "half a signature": (
        lambda lab: lab.signature.write_bytes(lab.signature.read_bytes()[:-40]),
        "is not what the key",
    ),
    "a huge signature": (lambda lab: lab.signature.write_bytes(b"x" * 100_000), "more than the 16,384 bytes"),
    "a changed signature": (lambda lab: flip(lab.signature), ""),
    "the key of a stranger": (lambda lab: lab.stranger.sign(lab.catalog), "Do not take a new key"),
    "a stranger under our number": (forge_key_number, "is not what the key"),
    "a changed byte": (lambda lab: flip(lab.catalog), "is not what the key"),
    "another manifest": (lambda lab: lab.write(digest="0" * 64), "is not what the key"),
    "another place": (lambda lab: lab.write("/elsewhere"), "is not what the key"),
    "another name in it": (lambda lab: lab.write(name="dom"), "is not what the key"),
    "a signed manifest": (signed_manifest_as_catalog, "it needs exactly manifest and places"),
    "a catalog that is away": (lambda lab: lab.catalog.unlink(), "does not exist"),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_on_a_catalog_is_refused(publisher, tmp_path, attack):
    act, said = ATTACKS[attack]
    assert look_up("toy", keys=pinned())[0]
    act(publisher)
    with pytest.raises(ShiftdataError) as caught:
        sd.fetch("toy", out=tmp_path / "out")
    assert said in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_the_users_own_catalog_needs_no_signature_and_an_empty_variable_pins_nothing(
    publisher, tmp_path, monkeypatch
):
    publisher.signature.unlink()
    with pytest.raises(IntegrityError, match="is not signed"):
        look_up("toy", keys=pinned())
    assert main(["list"]) == 0
    monkeypatch.setenv("SHIFTDATA_KEY", "")
    assert look_up("toy", keys=pinned())[0]
    monkeypatch.delenv("SHIFTDATA_KEY")
    assert not pinned()
    own = tmp_path / "config" / "shiftdata"
    own.mkdir(parents=True)
    shutil.copy(publisher.key.public, own / "keys.pub")
    publisher.catalog.rename(own / "catalog.json")
    monkeypatch.delenv("SHIFTDATA_CATALOG")
    assert look_up("toy", keys=pinned())[0]


def test_a_manifest_must_be_signed_where_no_signed_catalog_has_its_hash(
    publisher, tiny, tmp_path, monkeypatch, server
):
    monkeypatch.delenv("SHIFTDATA_CATALOG")
    place = copied(tiny, tmp_path / "place" / "tiny")
    signature = publisher.key.sign(place / "manifest.json").read_bytes()
    stranger = publisher.stranger.sign(place / "manifest.json").read_bytes()
    (place / SIGNATURE).unlink()
    for fault in (None, stranger, b"noise"):
        if fault is not None:
            (place / SIGNATURE).write_bytes(fault)
        with pytest.raises(ShiftdataError, match=r"manifest\.json is (not )?(signed|next to)"):
            sd.fetch(place, out=tmp_path / "out")
        assert not (tmp_path / "out").exists()
    with pytest.raises(IntegrityError, match="is not signed"):
        sd.info(f"{server.url}/tiny")
    (place / SIGNATURE).write_bytes(signature)
    assert contents(sd.fetch(place, out=tmp_path / "out")) == contents(place)
    assert main(["verify", str(tmp_path / "out"), "--files-only", "--key", publisher.key.public]) == 0
    assert main(["verify", str(tmp_path / "out"), "--files-only", "--key", publisher.stranger.public]) == 1
    assert sd.load_dataset(tmp_path / "out", "gf_k2_mu10", split="train")
    publisher.write(str(place))
    publisher.key.sign(publisher.catalog)
    monkeypatch.setenv("SHIFTDATA_CATALOG", str(publisher.catalog))
    assert contents(sd.fetch("toy", out=tmp_path / "by name")) == contents(place)
    flip(tmp_path / "out" / SIGNATURE)
    assert main(["verify", str(tmp_path / "out"), "--files-only", "--key", publisher.key.public]) == 1


def test_a_signed_dataset_of_another_name_is_not_the_one_asked_for(publisher, tiny, tmp_path, monkeypatch):
    monkeypatch.delenv("SHIFTDATA_CATALOG")
    place = copied(tiny, tmp_path / "place")
    publisher.key.sign(place / "manifest.json")
    with pytest.raises(ShiftdataError, match="has the dataset tiny, which is signed, and not toy"):
        sd.fetch("toy", places=[place], out=tmp_path / "out", offline=True)
    assert sd.fetch("tiny", places=[place], out=tmp_path / "out", offline=True)


def test_what_is_no_key_is_refused(publisher):
    with pytest.raises(InputError, match="is not a public key of minisign"):
        pinned(str(publisher.catalog))
    with pytest.raises(InputError, match="is not a file"):
        pinned("lab.pub")


@pytest.mark.skipif(shutil.which("minisign") is None, reason="minisign is not installed")
@pytest.mark.parametrize("legacy", [[], ["-l"]])
def test_the_signatures_of_minisign_itself_are_taken(publisher, legacy):
    def run(*arguments: str) -> None:
        command = ["minisign", *arguments]
        subprocess.run(command, cwd=publisher.folder, check=True, stdout=subprocess.DEVNULL)

    run("-GW", "-p", "cli.pub", "-s", "cli.key")
    run("-S", *legacy, "-s", "cli.key", "-m", "catalog.json")
    assert Catalog.read(publisher.catalog, pinned(str(publisher.folder / "cli.pub"))).entries
