"""`raw get` of SMA by the real client of OpenML from a server of our own, into a folder that is read."""

from __future__ import annotations

import io
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from builders.raw.album import RawAlbum
from builders.raw.getting import get
from builders.raw.sma import STYLE_NAMES
from builders.raw.sources import source
from builders.recipe_files import load_recipe
from shiftdata.errors import StorageError
from tests.builders.openml_server import Handler
from tests.builders.replicas import sma
from tests.web import answering

openml = pytest.importorskip("openml", reason="make test-slow installs the client")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:``download_all_files`` is experimental:FutureWarning"),
]

BRD = source("sma_brd")
#: What its releases may be: names of files that say all, or nothing.
NAMES = {"named": "{label}_{style}_{n}", "opaque": "{row}"}


@pytest.fixture(params=NAMES)
def folder(request, tmp_path, monkeypatch) -> Iterator[Path]:
    """An empty folder, while the client's server is ours."""
    files: dict[tuple[int, str], bytes] = {}
    for form, number in BRD.openml.items():
        kind, version = form.split("_")
        top = f"BRD{'_STY' if kind == 'stylized' else ''}_{version.capitalize()}"
        path, table = f"{top}/images/{NAMES[request.param]}.jpg", f"dataset_{number}.pq"
        columns = {"FILE_NAME": "{file}", "CATEGORY": "{label}_{style}" if kind == "stylized" else "{label}"}
        release = sma.Form(path, columns, table, content=path if kind == "content" else "")
        place = tmp_path / form
        styles = STYLE_NAMES[:3] if kind == "stylized" else ()
        release.make(place, ("owl", "sea_wave"), 5 if version == "extended" else 4, styles)
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            for picture in place.rglob("*.jpg"):
                archive.write(picture, picture.relative_to(place))
        files |= {(number, table): (place / table).read_bytes(), (number, f"{top}.zip"): packed.getvalue()}
    monkeypatch.setattr(Handler, "files", files)
    monkeypatch.setattr(Handler, "asked", [])
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with answering(Handler) as address:
        monkeypatch.setattr(openml.config, "server", f"{address}/api/v1/xml")
        yield tmp_path / "raw"


def album(folder: Path) -> RawAlbum:
    recipe = load_recipe("sma_brd").album
    assert isinstance(recipe, RawAlbum)
    return recipe.at(folder)


def test_what_the_client_leaves_is_read_and_is_not_got_again(folder):
    get(BRD, folder, accepted=True, say=str)
    items = album(folder).items()
    assert Counter(item.bases for item in items) == {("extended", "mini"): 2 * 4 * 4, ("extended",): 2 * 4}
    assert len({item.origin for item in items}) == 2 * 5
    Handler.asked.clear()
    get(BRD, folder, accepted=True, say=str)
    assert not any("zip" in call for call in Handler.asked)


def test_an_archive_that_was_cut_while_it_was_unpacked_comes_again(folder):
    get(BRD, folder, accepted=True, say=str)
    (pictures,) = folder.rglob("BRD_STY_Mini/images")
    place = pictures.parents[1]
    for path in [*pictures.glob("*1.jpg"), *(each for each in place.iterdir() if len(each.name) == 32)]:
        path.unlink()  # as it is before the last pictures, and the client's mark that all is there
    (place / "BRD_STY_Mini.zip").write_bytes(Handler.files[46034, "BRD_STY_Mini.zip"])
    get(BRD, folder, accepted=True, say=str)
    assert len([*pictures.iterdir()]) == 2 * 3 * 4


def test_a_set_without_its_pictures_is_no_download(folder, monkeypatch):
    files = {key: data for key, data in Handler.files.items() if key != (46034, "BRD_STY_Mini.zip")}
    monkeypatch.setattr(Handler, "files", files)
    with pytest.raises(
        StorageError, match=r"OpenML 46034 \(stylized mini\) of sma_brd came without pictures"
    ):
        get(BRD, folder, accepted=True, say=str)
