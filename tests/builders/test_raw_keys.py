"""Keys of files whose names are the same but for their ending or their folder."""

from __future__ import annotations

from pathlib import Path

from builders.albums.folder import DIGITS_OF_MANY, hash_digits
from builders.raw.album import RawAlbum
from builders.raw.folders import Folders


def test_a_name_that_occurs_twice_is_told_apart_by_its_ending_or_else_by_its_path(tmp_path: Path):
    paths = ["art/cat/x.jpg", "art/images/cat/x.jpg", "art/cat/y.jpg", "art/cat/y.png", "art/cat/z.jpg"]
    for path in paths:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(path.encode())
    layout = Folders(domains=("art",), labels=("cat",), parts=("images",))
    album = RawAlbum(name="some", layout=layout, license="MIT", attribution="A", root=tmp_path)
    keys = {str(item.source["file"]): item.key for item in album.items()}
    assert len({*keys.values()}) == len(paths)
    apart = {paths[0]: paths[0], paths[1]: paths[1], paths[2]: "y.jpg", paths[3]: "y.png"}
    for path, text in apart.items():
        assert hash_digits(text, DIGITS_OF_MANY) in keys[path]
    assert keys["art/cat/z.jpg"] == "cat--z--art"
