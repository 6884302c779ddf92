"""Places that nobody should trust: nothing outside is touched, nothing wrong gets in, no login out."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import huggingface_hub.constants
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shiftdata as sd
from builders.publish.hub import RepoOptions
from builders.publish.publishing import target_of
from builders.publish.target import Source
from shiftdata.data.fetching import sources
from shiftdata.data.fetching.staging import staging_of
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.loading.byte_ranges import ExampleReader
from shiftdata.data.places import catalog, client, http, search
from shiftdata.data.places.hubs import HUB, HubRepo, token_for
from shiftdata.errors import InputError, IntegrityError, NotFoundError, ShiftdataError, StorageError
from shiftdata.evaluation.verify import verify
from tests.data.fetching.conftest import contents, copied, flip, same
from tests.data.fetching.hostile import Hostile, hostile
from tests.tiny import edit_manifest

STORED, OWN = "hf_the_stored_login", "hf_the_one_in_the_environment"
TEST = "data/mini/test-00000-of-00001.parquet"
PLACES = ("http", "hub")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A login that is stored, one in `.netrc`, and a cache that is empty."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "login").write_text(STORED)
    (home / ".netrc").write_text("default login me password of-netrc\n")
    (home / ".netrc").chmod(0o600)
    monkeypatch.setenv("NETRC", str(home / ".netrc"))
    monkeypatch.setenv("HOME", str(home))
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "SHIFTDATA_TOKENS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {
        "HF_HUB_OFFLINE": False,
        "HF_TOKEN_PATH": str(home / "login"),
        "HF_HUB_CACHE": str(home / "cache"),
        "HF_HUB_DISABLE_IMPLICIT_TOKEN": False,
    }.items():
        monkeypatch.setattr(huggingface_hub.constants, name, value)
    return home


@pytest.fixture
def server(tiny: Path) -> Iterator[Hostile]:
    with hostile(tiny) as running:
        yield running


def bound(monkeypatch: pytest.MonkeyPatch, home: Path, tokens: dict[str, str]) -> None:
    """Write the file of tokens."""
    (home / "tokens.json").write_text(json.dumps(tokens))
    monkeypatch.setenv("SHIFTDATA_TOKENS", str(home / "tokens.json"))


def everything(place: str) -> None:
    """What a reader may do with a place."""
    sd.info(place)
    sd.fetch(place, out="whole")
    sd.fetch(place, select={"style": [2]}, out="part")
    verify(place)
    sd.read_metadata(place, "mini")
    with ExampleReader(place, "mini") as reader:
        reader.read([0, 5])
    search.store_at(place).listing()


# Logins


@pytest.mark.slow
@pytest.mark.parametrize("kind", PLACES)
@pytest.mark.parametrize("token", [None, OWN])
def test_no_login_goes_to_a_server_that_is_named_by_its_address(server, monkeypatch, kind, token, home):
    if token:
        monkeypatch.setenv("HF_TOKEN", token)
    everything(getattr(server, kind))
    assert len(server.asked) > 10
    assert server.secrets == []
    assert not (home / "cache").exists()  # what it says must not be believed of the Hub


def test_no_login_goes_where_datasets_loads_from(server, monkeypatch):
    import datasets

    monkeypatch.setenv("HF_TOKEN", OWN)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
    assert len(sd.load_dataset(server.http, "mini", split="test")) == 120
    assert next(iter(sd.load_dataset(server.http, "gf_k2_mu10", split="train", streaming=True)))
    assert server.secrets == []


def test_no_login_goes_to_a_server_that_is_published_to(server, monkeypatch, tiny, tmp_path):
    monkeypatch.setenv("HF_TOKEN", OWN)
    target = target_of(server.url, "tiny", tmp_path, RepoOptions())
    with suppress(Exception):
        target.compare(Source.read(tiny))
    assert len(server.asked) > 0
    assert server.secrets == []
    with pytest.raises(InputError, match="plain http"):
        target_of("http://192.0.2.1", "tiny", tmp_path, RepoOptions(token=OWN)).compare(Source.read(tiny))


def test_no_login_goes_to_a_catalog(server, monkeypatch, tmp_path, tiny):
    monkeypatch.setenv("HF_TOKEN", OWN)
    digest = hashlib.sha256((tiny / "manifest.json").read_bytes()).hexdigest()
    one = {"tiny": {"manifest": digest, "places": [server.hub, server.http]}}
    with hostile(tmp_path) as other:
        (tmp_path / "catalog.json").write_text(json.dumps(one))
        monkeypatch.setenv("SHIFTDATA_CATALOG", f"{other.url}/catalog.json")
        other.answers["catalog.json"] = "well"
        assert same(sd.fetch("tiny", out="out"), tiny)
        assert other.secrets == server.secrets == []


@pytest.mark.slow
def test_the_hub_of_the_environment_gets_its_token_alone(server, tmp_path):
    """In a process of its own, since the endpoint is read once; `datasets` reads it too."""
    code = (
        "import shiftdata as sd\n"
        "sd.info('shift/tiny'); sd.fetch('shift/tiny', out='out')\n"
        "print(len(sd.load_dataset('shift/tiny', 'mini', split='test')))"
    )
    own = {
        "HF_ENDPOINT": server.url,
        "HF_HOME": str(tmp_path / "hf"),
        "HF_TOKEN_PATH": str(tmp_path / "home/login"),
        "HF_HUB_OFFLINE": "0",
    }
    for more in ({}, {"HF_TOKEN": OWN}):
        server.secrets.clear()
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
        subprocess.run(
            [sys.executable, "-c", code], env=environment | own | more, cwd=tmp_path, capture_output=True
        )
        assert any("resolve" in asked for asked in server.asked)
        assert {secret.rpartition(" ")[2] for secret in server.secrets} == set(more.values())


def test_each_token_has_its_origin(monkeypatch, home):
    monkeypatch.setenv("HF_TOKEN", OWN)
    assert [token_for(one) for one in (None, HUB, "https://lab", "http://huggingface.co")] == [
        OWN,
        OWN,
        False,
        False,
    ]
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "https://lab:8000")
    bound(monkeypatch, home, {"https://other": "of-other"})
    asked = (None, "https://LAB:8000/x", "https://lab", HUB, "https://huggingface.co:443", "https://other")
    assert [token_for(one) for one in asked] == [OWN, OWN, False, STORED, STORED, "of-other"]
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://lab:8000")
    with pytest.warns(UserWarning, match="gets no token: it would go over plain http"):
        assert token_for(None) is False
    bound(monkeypatch, home, {"http://lab:8000": "of-lab"})
    with pytest.raises(InputError, match="plain http") as error:
        token_for(None)
    assert "of-lab" not in str(error.value)
    for wrong in ("[1]", '{"https://lab": 1}', "[" * 100_000, '{"https://lab": "of-lab",}'):
        (home / "tokens.json").write_text(wrong)
        with pytest.raises(InputError, match="tokens") as error:
            token_for(None)
        assert "of-lab" not in str(error.value)


@pytest.mark.slow
@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2"])
def test_a_redirect_gets_no_token(tiny, server, monkeypatch, home, host):
    bound(monkeypatch, home, {server.url: "of-the-server"})
    with hostile(tiny, host) as other:
        server.answers["parquet"], server.target = "redirect", other.url
        everything(server.hub)
        assert any(one.startswith("GET /datasets") for one in other.asked)
        assert other.secrets == []
    assert {secret.rpartition(" ")[2] for secret in server.secrets} == {"of-the-server"}


def test_a_token_is_not_sent_over_plain_http():
    repo = HubRepo("shift/tiny", "http://192.0.2.1:8000", token="secret-one")
    with pytest.raises(InputError, match="cannot be sent to http://192") as error:
        search.Hub(repo)
    assert "secret-one" not in str(error.value)


@pytest.mark.parametrize(
    "address",
    ["https://me:secret@lab/tiny", "hf+https://me:secret@lab/datasets/a/b", "https://huggingface.co@lab/tiny",
     "hf+https://huggingface.co\\@lab/datasets/a/b", "s3://key:secret@bucket/tiny", "sftp://me:secret@lab/x"],
)  # fmt: skip
def test_an_address_has_no_login_in_it(address):
    with pytest.raises(InputError):
        search.store_at(address)


# Ends


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HEAD", "WINDOW"):
        monkeypatch.setattr(client, name, 0.5)


ENDLESS = ["endless", "chunks", "heads", "huge", "more", "packed", "drip", "drip_head", "loop"]


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("way", ENDLESS)
@pytest.mark.parametrize("kind", ["http", pytest.param("hub", marks=pytest.mark.slow)])
def test_an_answer_has_an_end(server, tiny, kind, way):
    """A file, then the manifest: refused after as many bytes as it may have, and the next place is asked."""
    server.answers[TEST] = way
    begun = time.monotonic()
    outcome = sd.fetch(str(tiny), places=[getattr(server, kind)], out="out", jobs=1)
    assert same(outcome, tiny)
    server.answers["manifest.json"] = way
    with pytest.raises(ShiftdataError):
        sd.info(getattr(server, kind))
    with pytest.raises(ShiftdataError):
        sd.fetch(getattr(server, kind), out="other")
    assert time.monotonic() - begun < 30
    assert server.sent < 400e6
    assert [path.name for path in Path().iterdir()] == ["out"]


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
def test_an_answer_that_goes_on_may_take_long(server):
    server.answers["long"] = "paced"
    assert search.store_at(server.http).read("long") == bytes(500_000)


@pytest.mark.usefixtures("impatient")
def test_a_place_that_is_slow_each_time_is_not_asked_for_every_file(server, monkeypatch, tiny):
    monkeypatch.setattr(sources, "SLOW", 0.3)
    server.answers |= {".parquet": "drip", ".md": "drip", ".jpg": "drip", ".png": "drip"}
    with pytest.raises(StorageError, match="it was slow and failed 3 times"):
        sd.fetch(server.http, out="out", jobs=1)
    assert len([asked for asked in server.asked if "GET" in asked and "manifest" not in asked]) < 15


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("way", ["endless", "chunks", "drip", "pages"])
def test_a_list_of_files_has_an_end(server, way, monkeypatch):
    monkeypatch.setattr(http, "LISTING_TIME", 2.0)
    server.answers |= {"/main": way, "/": way}
    with suppress(ShiftdataError):
        assert search.store_at(server.hub).listing() is None
    assert server.sent < 100e6


@pytest.mark.parametrize("name", ["manifest.json", TEST, "metadata/mini/test.parquet", "README.md"])
def test_a_pipe_is_not_waited_for(tiny, tmp_path, name):
    bad, done = copied(tiny, tmp_path / "bad"), list[Path]()
    (bad / name).unlink()
    os.mkfifo(bad / name)

    def work() -> None:
        done.append(sd.fetch(str(tiny), places=[str(bad)], out="out"))
        with suppress(ShiftdataError):
            sd.read_metadata(bad, "mini")
        done.append(bad)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(60)
    assert len(done) == 2
    assert same(done[0], tiny)
    (bad / name).unlink()
    (bad / name).symlink_to("/dev/zero")
    with pytest.raises(ShiftdataError, match=r"not a regular file|has 0 bytes|has no manifest"):
        sd.fetch(str(bad), out="other")


def long_texts(table: pa.Table) -> pa.Table:
    """One text in each row, which a file has once."""
    place = table.schema.get_field_index("params")
    return table.set_column(place, table.schema.field("params"), pa.array(["x" * 4_000_000] * len(table)))


@pytest.mark.slow
def test_a_file_is_not_read_that_unpacks_to_gigabytes(tiny, tmp_path):
    bad, path = copied(tiny, tmp_path / "bad"), "metadata/mini/test.parquet"
    table = long_texts(pq.read_table(tiny / path))
    pq.write_table(table, bad / path, compression="zstd")
    data = (bad / path).read_bytes()
    record = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest(), "rows": len(table)}
    edit_manifest(bad, lambda raw: raw["files"][path].update(record))
    with pytest.raises(IntegrityError, match=r"at most .* bytes are read"):
        sd.fetch(str(bad), split="test", select={"style": [1]}, out="out")


# Links


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """A folder of somebody, which must stay as it is."""
    folder = tmp_path / "precious"
    (folder / "mini").mkdir(parents=True)
    (folder / "thesis.tex").write_text("years of work")
    (folder / "mini" / Path(TEST).name).write_text("mine")
    return folder


def test_a_staging_folder_is_no_link(tiny, precious):
    before = contents(precious)
    staging_of(Path("out")).symlink_to(precious)
    for options in ({}, {"select": {"style": [2]}}):
        with pytest.raises(InputError, match="is a link or belongs to somebody else"):
            sd.fetch(str(tiny), out="out", **options)
    assert contents(precious) == before


def test_a_folder_that_no_fetch_made_is_not_emptied(tiny):
    folder = staging_of(Path("out"))
    folder.mkdir()
    (folder / "mine").write_text("mine")
    with pytest.raises(InputError, match="was not made by a fetch"):
        sd.fetch(str(tiny), out="out")
    assert (folder / "mine").read_text() == "mine"


@pytest.mark.parametrize("name", ["data", "data/mini", TEST, "README.md", "metadata", "manifest.json"])
def test_mending_writes_nothing_outside(tiny, precious, name):
    before = contents(precious)
    out = copied(tiny, Path("out"))
    flip(out / "metadata/mini/train.parquet")
    target = out / name
    target.rename("away")
    target.symlink_to({"data": precious, "data/mini": precious / "mini"}.get(name, precious / "thesis.tex"))
    with pytest.raises(InputError, match="is a link or not a regular file"):
        sd.fetch(str(tiny), out="out")
    with pytest.raises(InputError):
        sd.fetch(str(tiny), out="out", replace=True, select={"style": [2]})
    assert contents(precious) == before
    assert target.is_symlink()


@pytest.mark.parametrize(
    "name", ["data", "metadata/mini", ".manifest.json", ".purpose", ".lock", f"{TEST}.part"]
)
def test_a_link_where_files_gather_is_refused(tiny, precious, name, tmp_path):
    before = contents(precious)
    folder = staging_of(Path("out"))
    (folder / Path(name).parent).mkdir(parents=True)
    if name != ".lock":
        (folder / ".lock").write_text("")
    (folder / name).symlink_to(precious if name in ("data", "metadata/mini") else precious / "thesis.tex")
    with pytest.raises(InputError, match="link"):
        sd.fetch(str(tiny), out="out")
    assert contents(precious) == before


def test_a_second_name_of_a_file_is_not_written_to(tiny, precious, tmp_path):
    bad = copied(tiny, tmp_path / "bad")
    (bad / TEST).unlink()
    with pytest.raises(StorageError):
        sd.fetch(str(bad), out="out")
    os.link(precious / "thesis.tex", staging_of(Path("out")) / f"{TEST}.part")
    assert same(sd.fetch(str(tiny), out="out"), tiny)
    assert (precious / "thesis.tex").read_text() == "years of work"


def test_a_target_may_be_a_link_itself(tiny, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    Path("out").symlink_to(disk)
    sd.fetch(str(tiny), out="out")
    assert Path("out").is_symlink()
    assert same(disk, tiny)
    flip(disk / TEST)
    sd.fetch(str(tiny), out="out")
    assert same(disk, tiny)
    sd.fetch(str(tiny), out="out", replace=True, select={"style": [2]})
    assert Path("out").is_symlink()
    assert Manifest.read(disk).part is not None
    assert {path.name for path in tmp_path.iterdir()} >= {"disk"}
    assert not list(tmp_path.glob(".disk*"))


# What is taken


@pytest.mark.parametrize(
    "name", ["README.md", "croissant.json", "ATTRIBUTION.md", TEST, "protocols/gf_k2_mu10.parquet"]
)
@pytest.mark.parametrize("kind", ["folder", *PLACES])
def test_nothing_is_taken_that_the_manifest_does_not_hash(tiny, tmp_path, name, kind, precious):
    bad = copied(tiny, tmp_path / "bad")
    if kind == "folder":
        (bad / name).unlink()
        (bad / name).symlink_to(precious / "thesis.tex")
    else:
        data = (bad / name).read_bytes()
        (bad / name).write_bytes(bytes([data[0] ^ 1]) + data[1:])
    (bad / "extra.py").write_text("import os")
    with hostile(bad) as server:
        place = str(bad) if kind == "folder" else getattr(server, kind)
        assert same(sd.fetch(str(tiny), places=[place], out="out"), tiny)
        with pytest.raises(StorageError, match=name):
            sd.fetch(place, out="other")
    assert not Path("other").exists()
    assert "years of work" not in str(contents(Path()))
    damaged = Path("out") / name
    damaged.write_bytes(b"false")
    assert same(sd.fetch(str(tiny), out="out"), tiny)


@pytest.mark.parametrize(
    "place",
    [
        "/etc", "-x", "../tiny", "file:///etc", "local:///etc", "memory://x", "simplecache::http://lab/x",
     "filecache::file:///etc", "zip://x::http://lab/a.zip", "reference://x", "github://a:b@c/d", "ftp://lab/x",
     "https://me:secret@lab/x", "jar://x", "data:,x", "http://lab/\x1b[31mred", "https://lab/" + "x" * 3000],
)  # fmt: skip
def test_a_catalog_at_a_url_names_no_files_of_this_machine(tmp_path, monkeypatch, place, tiny):
    (tmp_path / "catalog.json").write_text(json.dumps({"tiny": {"manifest": "0" * 64, "places": [place]}}))
    with hostile(tmp_path) as server:
        monkeypatch.setenv("SHIFTDATA_CATALOG", f"{server.url}/catalog.json")
        with pytest.raises(NotFoundError, match="is not used") as error:
            sd.fetch("tiny", out="out")
    assert "\x1b" not in str(error.value)
    monkeypatch.setenv("SHIFTDATA_CATALOG", str(tmp_path / "catalog.json"))
    known = catalog.look_up("tiny")[0]
    assert known is not None
    local = ("/etc", "-x", "../tiny", "file:///etc", "local:///etc", "memory://x", "data:,x")
    assert known.places == ((place,) if place in local else ())
