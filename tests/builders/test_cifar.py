"""CIFAR and what was made after it, from its arrays: pixels, origins, bad files, corruptions of our own."""

from __future__ import annotations

import gzip
import os
import pickle
import shutil
import struct
import tarfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import shiftdata as sd
from builders.make.build import build
from builders.raw.album import RawAlbum
from builders.recipe_files import load_recipe
from builders.sample import Sample
from shiftdata.errors import InputError
from shiftdata.evaluation.verify import verify
from shiftdata.stable import rng
from tests.builders.raw_albums import album_of, changed
from tests.builders.replicas import cifar as replica
from tests.builders.replicas.drawing import put

N = 2 * replica.EACH


@pytest.fixture(scope="module")
def raw(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("cifar")
    replica.cifar10(root)
    return root


def by_domain(album: RawAlbum) -> dict[str, list]:
    of: dict[str, list] = {}
    for item in album.items():
        of.setdefault(item.nuisance or "", []).append(item)
    return {
        domain: sorted(items, key=lambda item: item.source["lists"]["files"]) for domain, items in of.items()
    }


def test_pictures_and_labels_are_those_of_the_arrays(raw):
    album = album_of("cifar10", raw)
    items = by_domain(album)
    names = list(album.labels)
    for domain, name, first in (
        ("test", "test", 0),
        ("cifar10_1", "v6", 0),
        ("frost_4", "frost", 3 * N),
        ("pixelate_5", "pixelate", 4 * N),
    ):
        every = replica.pictures(
            name, 5 * N if "_" in domain and domain != "cifar10_1" else len(items[domain])
        )
        for number, item in enumerate(items[domain]):
            assert np.array_equal(np.asarray(album.load(item)), every[first + number]), (domain, number)
    wanted = replica.labels("test", N, 10).tolist()
    assert [names.index(item.label) for item in items["test"]] == wanted
    assert [names.index(item.label) for item in items["saturate_5"]] == wanted


def test_batches_and_halves_stand_in_the_order_of_the_authors(raw):
    items = by_domain(album_of("cifar10", raw))
    files = [str(item.source["file"]).rpartition("/")[2] for item in items["train"]]
    assert files == [f"data_batch_{number}" for number in range(1, 6) for _ in range(replica.EACH)]
    lists = [{*item.source["lists"]} - {"files"} for item in items["cifar10_2"]]
    assert lists == [{"train"}] * N + [{"test"}] * replica.EACH


def test_corruptions_have_the_origin_of_their_test_picture(raw):
    items = by_domain(album_of("cifar10", raw))
    test = [item.origin for item in items["test"]]
    assert len(set(test)) == N
    for domain in ("frost_4", "pixelate_5", "saturate_5"):
        assert [item.origin for item in items[domain]] == test
    others = {item.origin for domain in ("train", "cifar10_1", "cifar10_2") for item in items[domain]}
    assert len(others) == (5 + 1 + 3) * replica.EACH
    assert not others & {*test}


def binary(root: Path) -> None:
    """The binary version of the same pictures: rows of labels and bytes, red first."""
    for name in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"):
        key, count = ("test", N) if name == "test_batch" else (name, replica.EACH)
        pixels = replica.pictures(key, count).transpose(0, 3, 1, 2).reshape(count, -1)
        rows = np.hstack([replica.labels(key, count, 10)[:, np.newaxis], pixels]).astype(np.uint8)
        put(root, f"cifar-10-batches-bin/{name}.bin", rows.tobytes())


def archive(root: Path) -> None:
    """The archive of the pickles, as it is downloaded."""
    replica.python(root, 10)
    with tarfile.open(root / "cifar-10-python.tar.gz", "w:gz") as tar:
        tar.add(root / "cifar-10-batches-py", "cifar-10-batches-py")
    shutil.rmtree(root / "cifar-10-batches-py")


def both(root: Path) -> None:
    """The root of torchvision's datasets, with CIFAR-100 and its corruptions next to it."""
    replica.python(root, 10)
    replica.cifar100(root)


@pytest.mark.parametrize("form", [binary, archive, both])
def test_forms_of_cifar_10_have_the_same_examples(form, tmp_path):
    replica.python(tmp_path / "pickles", 10)
    form(tmp_path / "form")
    plain = album_of("cifar10", tmp_path / "pickles" / "cifar-10-batches-py")
    other = album_of("cifar10", tmp_path / "form")
    assert [*other.items().digests()] == [*plain.items().digests()]
    assert [item.origin for item in other.items()] == [item.origin for item in plain.items()]
    assert plain.left_out["frost.npy"] == "missing: the tree has no such file"


@pytest.fixture(scope="module")
def fashion(tmp_path_factory) -> Path:
    """Files of MNIST's form: three pictures of each class to train on, and one to test on."""
    root = tmp_path_factory.mktemp("fashion")
    for name, count in {"train": 30, "t10k": 10}.items():
        for kind, sizes in (("images-idx3", (count, 28, 28)), ("labels-idx1", (count,))):
            values = rng(0, name, kind).integers(0, 255, sizes) if len(sizes) > 1 else np.arange(count) % 10
            header = struct.pack(f">HBB{len(sizes)}I", 0, 8, len(sizes), *sizes)
            data = header + values.astype(np.uint8).tobytes()
            put(root, f"{name}-{kind}-ubyte.gz", gzip.compress(data))
    return root


def test_files_of_the_form_of_mnist_are_grey_pictures_in_two_lists(fashion):
    album = album_of("fashion_mnist", fashion)
    assert Counter(next(iter(item.source["lists"])) for item in album.items()) == {"train": 30, "test": 10}
    assert {album.load(item).size for item in album.items()} == {(28, 28)}
    assert [item.label for item in album.items() if item.source["lists"] == {"test": 9}] == ["ankle_boot"]


@pytest.mark.slow
def test_a_set_of_classes_is_built_untouched_and_under_corruptions(fashion, tmp_path):
    folder = build(f"fashion_mnist={fashion}", tmp_path, workers=1, quiet=True)
    assert not list(verify(folder))
    rows = {
        base.name: sum(split.rows for split in base.splits.values())
        for base in sd.open_dataset(folder).manifest.bases
    }
    assert rows == {"content": 40, "mini": 40 * 19 * 6}
    task = sd.task(folder, "continuous@paper shifts=fog")
    assert task.evaluate(task.table("test")["label"].to_pylist())["accuracy@5"] == 1


class Runs:
    """A pickle that would run a command."""

    def __reduce__(self):
        return os.system, ("echo ran > /tmp/never",)


@pytest.mark.parametrize(
    ("file", "data", "message"),
    [
        (
            "cifar-10-batches-py/test_batch",
            pickle.dumps({b"data": Runs()}),
            r"it asks for (posix|nt)\.system",
        ),
        ("cifar-10-batches-py/test_batch", b"<html>", "half a download"),
        ("CIFAR-10-C/frost.npy", replica.array(replica.pictures("frost", 3))[:-9], "half a download"),
        (
            "CIFAR-10-C/labels.npy",
            replica.array(np.full(5 * N, 99)),
            "from 99 to 99, and there are 10",
        ),
    ],
)
def test_a_file_that_is_damaged_or_of_another_dataset_is_named_and_runs_nothing(
    raw, tmp_path, file, data, message
):
    album = changed("cifar10", raw, tmp_path / "raw", lambda copy: (copy / file).write_bytes(data))
    with pytest.raises(InputError, match=f"{file} .*{message}"):
        album.items()


def test_corruptions_of_our_own_begin_at_the_untouched_picture(raw):
    recipe = load_recipe(f"cifar10_corrupted={raw}")
    items = recipe.album.items()
    assert len(items) == N
    assert not any(item.nuisance for item in items)
    item = items[3]
    whole = recipe.album.load(item)
    samples = list(recipe.shift(iter([Sample(item=item, key=item.key, example=whole)])))
    assert len(samples) == 19 * 6
    for sample in samples:
        assert sample.image.size == (32, 32)
        assert (sample.image.tobytes() == whole.tobytes()) == (sample.severity == 0), sample.key


def test_no_pixel_of_cifar_is_published():
    names = ("cifar10", "cifar100", "cifar10_c", "cifar100_c", "cifar10_corrupted", "cifar100_corrupted")
    assert not [name for name in names if load_recipe(name).publishes == "all"]
