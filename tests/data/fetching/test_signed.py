"""Signed catalogs and manifests: what a reader who pinned a key takes, and what it refuses."""

from __future__ import annotations

import base64
import hashlib
import shutil
import subprocess
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from getpass import GetPassWarning
from pathlib import Path

import pytest

import shiftdata as sd
from shiftdata.cli.app import main
from shiftdata.data.places import freshness, signatures
from shiftdata.data.places.catalog import Catalog, Entry, look_up
from shiftdata.data.places.signatures import SIGNATURE, SecretKey, make_key, pinned
from shiftdata.errors import InputError, IntegrityError, ShiftdataError
from tests.data.fetching.conftest import contents, copied, flip

SOON = freshness.today() + timedelta(days=30)


@dataclass
class Publisher:
    """A folder with a signed catalog, a key that readers pinned, and keys that they did not."""

    folder: Path
    dataset: Path

    def __post_init__(self) -> None:
        self.catalog = self.folder / "catalog.json"
        self.signature = self.folder / "catalog.json.minisig"
        for name in ("lab", "new", "stranger"):
            make_key(self.folder / f"{name}.key", "")

    def key(self, name: str = "lab") -> SecretKey:
        return SecretKey(self.folder / f"{name}.key")

    def public(self, name: str = "lab") -> str:
        return str(self.folder / f"{name}.pub")

    def sign(
        self, key: str = "lab", name: str = "lab", expires: date = SOON, version: int | None = None
    ) -> None:
        data = self.catalog.read_bytes()
        freshness.sign_catalog(self.catalog, data, self.key(key), name, expires, version)

    def write(self, *places: str, digest: str | None = None, name: str = "toy") -> None:
        digest = digest or hashlib.sha256((self.dataset / "manifest.json").read_bytes()).hexdigest()
        Catalog({name: Entry(digest, places or (str(self.dataset),))}).write(self.catalog)

    def comment(self, comment: str, key: str = "lab") -> None:
        self.signature.write_bytes(self.key(key).sign(self.catalog.read_bytes(), comment))

    def edit(self, old: str, new: str) -> None:
        text = self.signature.read_text()
        assert old in text
        self.signature.write_text(text.replace(old, new))

    def next_key(self, old: str, new: str) -> list[Path]:
        (public,) = pinned(self.public(new))
        return freshness.sign_next_key(self.catalog, self.key(old), public)

    def state(self) -> dict[str, bytes]:
        return contents(self.folder)

    def restore(self, state: dict[str, bytes]) -> None:
        for path in self.folder.iterdir():
            path.unlink()
        for name, data in state.items():
            (self.folder / name).write_bytes(data)
            (self.folder / name).chmod(0o600)


@pytest.fixture
def publisher(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Publisher:
    (tmp_path / "lab").mkdir()
    published = Publisher(tmp_path / "lab", tiny)
    published.write()
    published.sign(version=5)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("SHIFTDATA_CATALOG", str(published.catalog))
    monkeypatch.setenv("SHIFTDATA_KEY", published.public())
    return published


def forge_key_number(lab: Publisher) -> None:
    """A stranger's signature that names the pinned key."""
    ours = base64.b64decode(lab.signature.read_bytes().splitlines()[1])
    lab.write("/elsewhere")
    lab.sign("stranger", version=6)
    lines = lab.signature.read_bytes().splitlines()
    theirs = base64.b64decode(lines[1])
    lines[1] = base64.b64encode(theirs[:2] + ours[2:10] + theirs[10:])
    lab.signature.write_bytes(b"\n".join(lines) + b"\n")


def forge_next_key(lab: Publisher) -> None:
    """A stranger's key that a stranger says follows the pinned one."""
    for path in lab.next_key("lab", "stranger"):
        data = Path(lab.public("stranger")).read_bytes()
        if path.suffix == ".minisig":
            data = lab.key("stranger").sign(data, "shiftdata key follows")
        path.write_bytes(data)
    lab.sign("stranger", version=6)


def next_key_without_statement(lab: Publisher) -> None:
    """The pinned key has signed the file of another key, as a file like any other."""
    public, proof = lab.next_key("lab", "stranger")
    proof.write_bytes(lab.key().sign(public.read_bytes(), "timestamp:1\tfile:stranger.pub"))
    lab.sign("stranger", version=6)


def next_key_unsigned(lab: Publisher) -> None:
    lab.next_key("lab", "stranger")[1].unlink()
    lab.sign("stranger", version=6)


def old_key_after_the_new(lab: Publisher) -> None:
    """Readers have learned a new key; then the old one, which was stolen, signs."""
    lab.next_key("lab", "new")
    lab.sign("new", version=6)
    assert look_up("toy", keys=pinned())[0]
    lab.sign("lab", version=7)


def older_body_under_the_newest_signature(lab: Publisher) -> None:
    old = lab.catalog.read_bytes()
    lab.write("/elsewhere")
    lab.sign()
    lab.catalog.write_bytes(old)


def signed_manifest_as_catalog(lab: Publisher) -> None:
    lab.catalog.write_bytes((lab.dataset / "manifest.json").read_bytes())
    lab.comment("shiftdata manifest toy 1.0.0")


def again(lab: Publisher, *places: str, **options: object) -> None:
    lab.write(*places)
    lab.sign(**options)  # type: ignore[arg-type]


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
    "the key of a stranger": (lambda lab: lab.sign("stranger", version=6), "Do not take a new key"),
    "a stranger under our number": (forge_key_number, "is not what the key"),
    "a changed byte": (lambda lab: flip(lab.catalog), "is not what the key"),
    "another manifest": (lambda lab: lab.write(digest="0" * 64), "is not what the key"),
    "another place": (lambda lab: lab.write("/elsewhere"), "is not what the key"),
    "an entry less": (lambda lab: Catalog({}).write(lab.catalog), "is not what the key"),
    "another name in it": (lambda lab: lab.write(name="dom"), "is not what the key"),
    "a later version by hand": (lambda lab: lab.edit("version 5", "version 6"), "is not what the key"),
    "a later end by hand": (lambda lab: lab.edit(str(SOON), "2999-01-01"), "is not what the key"),
    "rollback": (lambda lab: again(lab, version=4), "is version 4, which is old: version 5 was there"),
    "two of one version": (lambda lab: again(lab, "/b", version=5), "has other bytes than the version 5"),
    "an older body": (older_body_under_the_newest_signature, "is not what the key"),
    "freeze": (lambda lab: again(lab, expires=SOON, version=6), "ended on"),
    "the catalog of another name": (lambda lab: again(lab, name="staging", version=9), "'lab' was there"),
    "signed as something else": (lambda lab: lab.comment("timestamp:1\tfile:x"), "but not as a catalog"),
    "a signed manifest": (signed_manifest_as_catalog, "but not as a catalog"),
    "a forged next key": (forge_next_key, "is signed by the key"),
    "a next key without signature": (next_key_unsigned, "is not signed"),
    "a next key by mistake": (next_key_without_statement, "is not what `shiftdata catalog next-key` writes"),
    "the old key after the new": (old_key_after_the_new, "Do not take a new key"),
    "a catalog that is away": (lambda lab: lab.catalog.unlink(), "does not exist"),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_on_a_catalog_is_refused(publisher, tmp_path, attack):
    act, said = ATTACKS[attack]
    assert look_up("toy", keys=pinned())[0]
    state = publisher.state()
    act(publisher)
    with pytest.MonkeyPatch.context() as clock:
        if attack == "freeze":
            clock.setattr(freshness, "today", lambda: SOON + timedelta(days=1))
        with pytest.raises(ShiftdataError) as caught:
            sd.fetch("toy", out=tmp_path / "out")
    assert said in str(caught.value)
    assert not (tmp_path / "out").exists()
    publisher.restore(state)
    if attack != "the old key after the new":  # what was refused leaves no trace
        assert look_up("toy", keys=pinned())[0]
        assert sd.fetch("toy", out=tmp_path / "out")


def test_a_signed_catalog_is_read_again_and_by_its_next_keys(publisher):
    publisher.sign()
    assert Catalog.read(publisher.catalog, pinned()).statement == freshness.Statement("lab", 6, SOON)
    publisher.next_key("lab", "new")
    publisher.next_key("new", "stranger")
    publisher.sign("stranger")
    assert Catalog.read(publisher.catalog, pinned()).statement == freshness.Statement("lab", 7, SOON)
    for path in publisher.folder.glob("*.after-*"):  # what was learned is remembered
        path.unlink()
    assert Catalog.read(publisher.catalog, pinned()).entries


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
    shutil.copy(publisher.public(), own / "keys.pub")
    publisher.catalog.rename(own / "catalog.json")
    monkeypatch.delenv("SHIFTDATA_CATALOG")
    assert look_up("toy", keys=pinned())[0]


def test_a_manifest_must_be_signed_where_no_signed_catalog_has_its_hash(
    publisher, tiny, tmp_path, monkeypatch, server
):
    monkeypatch.delenv("SHIFTDATA_CATALOG")
    place = copied(tiny, tmp_path / "place" / "tiny")
    signature = publisher.key().sign((place / "manifest.json").read_bytes(), "timestamp:1")
    for fault in (
        None,
        publisher.key("stranger").sign((place / "manifest.json").read_bytes(), "x"),
        b"noise",
    ):
        if fault is not None:
            (place / SIGNATURE).write_bytes(fault)
        with pytest.raises(ShiftdataError, match=r"manifest\.json is (not )?(signed|next to)"):
            sd.fetch(place, out=tmp_path / "out")
        assert not (tmp_path / "out").exists()
    with pytest.raises(IntegrityError, match="is not signed"):
        sd.info(f"{server.url}/tiny")
    (place / SIGNATURE).write_bytes(signature)
    assert contents(sd.fetch(place, out=tmp_path / "out")) == contents(place)
    assert main(["verify", str(tmp_path / "out"), "--files-only", "--key", publisher.public()]) == 0
    assert main(["verify", str(tmp_path / "out"), "--files-only", "--key", publisher.public("new")]) == 1
    assert sd.load_dataset(tmp_path / "out", "gf_k2_mu10", split="train")
    publisher.write(str(place))
    publisher.sign()
    monkeypatch.setenv("SHIFTDATA_CATALOG", str(publisher.catalog))
    assert contents(sd.fetch("toy", out=tmp_path / "by name")) == contents(place)
    flip(tmp_path / "out" / SIGNATURE)
    assert main(["verify", str(tmp_path / "out"), "--files-only", "--key", publisher.public()]) == 1


def test_a_signed_dataset_of_another_name_is_not_the_one_asked_for(publisher, tiny, tmp_path, monkeypatch):
    monkeypatch.delenv("SHIFTDATA_CATALOG")
    place = copied(tiny, tmp_path / "place")
    (place / SIGNATURE).write_bytes(publisher.key().sign((place / "manifest.json").read_bytes(), "x"))
    with pytest.raises(ShiftdataError, match="has the dataset tiny, which is signed, and not toy"):
        sd.fetch("toy", places=[place], out=tmp_path / "out", offline=True)
    assert sd.fetch("tiny", places=[place], out=tmp_path / "out", offline=True)


def test_keys_are_guarded(publisher, tmp_path):
    (publisher.folder / "lab.key").chmod(0o640)
    with pytest.raises(InputError, match="chmod 600"):
        publisher.key()
    with pytest.raises(InputError, match="cannot be had again"):
        make_key(publisher.folder / "new.key", "")
    with pytest.raises(InputError, match="is not a public key of minisign"):
        pinned(str(publisher.catalog))
    with pytest.raises(InputError, match="is not a file"):
        pinned("lab.pub")


def test_the_verb_makes_keys_signs_and_checks(publisher, capsys, monkeypatch):
    monkeypatch.chdir(publisher.folder)
    (publisher.folder / "catalog.json.minisig").unlink()
    assert main(["catalog", "key", "mine.key", "--no-password"]) == 0
    assert main(["catalog", "sign", "catalog.json", "--key", "mine.key", "--expires", str(SOON)]) == 1
    assert "give it a name by --name" in capsys.readouterr().err
    words = ["catalog", "sign", "catalog.json", "--key", "mine.key", "--expires", str(SOON)]
    assert main([*words, "--name", "lab"]) == 0
    assert main(words) == 0
    assert main(["catalog", "check", "catalog.json", "--key", "mine.pub"]) == 0
    assert f"catalog.json: shiftdata catalog lab, version 2, expires {SOON}" in capsys.readouterr().out
    assert main(["catalog", "next-key", "catalog.json", "new.pub", "--key", "mine.key"]) == 0
    assert main([*words[:4], "new.key", *words[5:]]) == 0
    assert main(["catalog", "check", "catalog.json", "--key", "mine.pub"]) == 0
    assert "version 3" in capsys.readouterr().out


@pytest.mark.skipif(shutil.which("minisign") is None, reason="minisign is not installed")
def test_minisign_itself_takes_our_signatures_and_we_take_its(publisher, tmp_path):
    def minisign(*arguments: str) -> None:
        command = ["minisign", *arguments]
        subprocess.run(command, cwd=publisher.folder, check=True, stdout=subprocess.DEVNULL)

    minisign("-Vm", "catalog.json", "-p", "lab.pub")
    minisign("-GW", "-p", "cli.pub", "-s", "cli.key")
    statement = freshness.Statement("lab", 9, SOON)
    for legacy in ([], ["-l"]):
        minisign("-S", *legacy, "-s", "cli.key", "-m", "catalog.json", "-t", str(statement))
        assert freshness.check_catalog(
            str(publisher.catalog), publisher.catalog.read_bytes(), pinned(publisher.public("cli"))
        )
    minisign("-S", "-s", "lab.key", "-m", "catalog.json", "-t", str(statement))
    assert look_up("toy", keys=pinned())[0]
    publisher.sign("cli")
    minisign("-Vm", "catalog.json", "-p", "cli.pub")


def test_a_key_with_a_password_is_asked_for_or_says_that_it_has_one(tmp_path, monkeypatch, capsys):
    make_key(tmp_path / "lab.key", "hush")
    (tmp_path / "catalog.json").write_text("{}")
    words = ["catalog", "sign", str(tmp_path / "catalog.json"), "--key", str(tmp_path / "lab.key")]
    words += ["--name", "lab", "--expires", SOON.isoformat()]

    def refused(prompt: str) -> str:
        warnings.warn("it would be echoed", GetPassWarning, stacklevel=2)
        return "hush"

    for answer, status, said in (
        (refused, 1, "set SHIFTDATA_KEY_PASSWORD"),
        (lambda prompt: "wrong", 1, "wrong password"),
        (lambda prompt: "hush", 0, "version 1"),
    ):
        monkeypatch.setattr(signatures, "getpass", answer)
        assert main(words) == status
        assert said in "".join(capsys.readouterr())
    monkeypatch.setattr(signatures, "getpass", refused)
    monkeypatch.setenv("SHIFTDATA_KEY_PASSWORD", "hush")
    assert main(words) == 0
