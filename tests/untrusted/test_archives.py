from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile

import numpy as np
import pytest

from shiftdata.errors import LimitError
from shiftdata.untrusted.archives import open_zip, tar_members, unpack
from shiftdata.untrusted.arrays import read_array, read_arrays
from shiftdata.untrusted.limits import raised
from tests.bombs import growth

ZEROS = bytes(4 << 20)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_packed_file_that_unpacks_to_far_more_is_refused(pack):
    data = pack(ZEROS)
    assert unpack(data, "x.csv.gz") == ZEROS
    with raised(archive_bytes=1 << 20, archive_ratio=10):
        with pytest.raises(
            LimitError, match=r"^x.csv.gz would unpack .* bytes to [\d,]+ or more: at most 1,048"
        ):
            unpack(data, "x.csv.gz")
        assert unpack(pack(b"a,b\n" * 100), "x.csv.gz") == b"a,b\n" * 100


def test_gigabytes_of_zeros_do_not_fill_the_memory(tmp_path):
    path = tmp_path / "x.csv.gz"
    path.write_bytes(500 * gzip.compress(ZEROS))  # as many members, which are read as one file
    assert path.stat().st_size < 3 << 20
    before = """
from pathlib import Path
from shiftdata.errors import LimitError
from shiftdata.untrusted.archives import unpack
data = Path(sys.argv[1]).read_bytes()
"""
    code = """
try:
    unpack(data, "x.csv.gz")
except LimitError as error:
    print(error)
"""
    bytes_more, printed = growth(before, code, path)
    assert printed.startswith("x.csv.gz would unpack")
    assert bytes_more < 600 << 20


def test_members_of_a_zip_are_bounded(tmp_path):
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", ZEROS)
        archive.writestr("text", "honest")
    with raised(archive_bytes=1 << 20), open_zip(path) as archive:
        assert archive.read("text") == b"honest"
        with pytest.raises(LimitError, match="'zeros' would unpack"):
            archive.read("zeros")
    with (
        raised(archive_members=1),
        pytest.raises(LimitError, match=r"^x.zip has 2 members: at most 1 members"),
    ):
        open_zip(path)


def test_headers_and_members_of_a_tar_are_bounded(tmp_path):
    path = tmp_path / "x.tar"
    with tarfile.open(path, "w") as tar:
        for name in ("a", "b" * 5_000):
            tar.addfile(tarfile.TarInfo(name), io.BytesIO())
    assert [member.name[:3] for member in tar_members(path)] == ["a", "bbb"]
    with (
        raised(archive_header=1_000),
        pytest.raises(LimitError, match=r"^x.tar has a member with a long header"),
    ):
        list(tar_members(path))
    with raised(archive_members=1), pytest.raises(LimitError, match=r"^x.tar has 2 members"):
        list(tar_members(path))


def test_a_tar_of_headers_of_headers_is_broken(tmp_path):
    header = tarfile.TarInfo("././@LongLink")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 10
    path = tmp_path / "x.tar"
    path.write_bytes((header.tobuf(tarfile.GNU_FORMAT) + bytes(512)) * 2_000)
    with pytest.raises(tarfile.TarError):
        list(tar_members(path))


def test_an_array_has_the_bytes_that_its_header_says(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, np.arange(10.0))
    assert read_array(path).tolist() == read_array(path, mapped=True).tolist() == list(range(10))
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"(10,)", b"(99000000000,)"[:5].replace(b"(9900", b"(99,)")))
    for mapped in (False, True):
        with pytest.raises(ValueError):  # noqa: PT011  # numpy has other words for a file that it maps
            read_array(path, mapped=mapped)
    packed = io.BytesIO()
    np.savez_compressed(packed, images=np.zeros((3, 2)), labels=np.arange(3), texts=np.array(["a", None]))
    images, labels = read_arrays(packed.getvalue(), "x.npz", ["images", "labels"])
    assert (images.shape, labels.tolist()) == ((3, 2), [0, 1, 2])
