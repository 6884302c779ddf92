"""A tiny dataset, built once by the real pipeline, and an environment that never asks the network."""

from __future__ import annotations

import os

# One thread a process unless the caller says otherwise, before numpy is imported: tests run on every core.
os.environ |= {
    name: os.environ.get(name, "1") for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
}

import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from builders.make.build import build
from shiftdata.threads import available_cores
from tests.browser import browser
from tests.shared import dataset_of, made_once, make_demo
from tests.tiny import SMALL_TAR, write_recipe

HF_HOME = tempfile.mkdtemp(prefix="shiftdata-tests-")
# Read when `datasets` is first imported, which no module above does; our own caches are in it too.
os.environ |= {"HF_HOME": HF_HOME, "HF_HUB_OFFLINE": "1", "HF_DATASETS_DISABLE_PROGRESS_BARS": "1"}
os.environ["SHIFTDATA_RAW"] = f"{HF_HOME}/raw"  # compressed tars are unpacked there

# The same examples in every run, `make test-slow` takes the long profile; no deadline: machines are shared.
hypothesis.settings.register_profile("short", derandomize=True, deadline=None, max_examples=24)
hypothesis.settings.register_profile("long", derandomize=True, deadline=None, max_examples=300)
hypothesis.settings.load_profile("short")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--recipe", help="tests/contracts: run the contract on this recipe file instead")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores: tests wait for servers and processes a fifth of their time."""
    return available_cores() + 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the property tests, so that the long profile can be run on them alone."""
    for item in items:
        if hypothesis.is_hypothesis_test(getattr(item, "obj", None)):
            item.add_marker("property")


def pytest_unconfigure() -> None:
    shutil.rmtree(HF_HOME, ignore_errors=True)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A running browser. It ends with the module: while it runs, nothing else in its process can be async."""
    with browser() as opened:
        yield opened


@pytest.fixture(scope="session")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of the tiny recipe."""
    (path,) = made_once(tmp_path_factory, "recipe", write_recipe).glob("*.py")
    return path


@pytest.fixture(scope="session")
def tiny_out(recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An output folder with the tiny dataset: `<out>/shift/tiny`."""
    return made_once(tmp_path_factory, "out", lambda out: build(str(recipe), out, workers=1, quiet=True))


@pytest.fixture(scope="session")
def tiny(tiny_out: Path) -> Path:
    """The tiny dataset's folder. Read only: take `copy` to damage one."""
    return tiny_out / "shift" / "tiny"


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's dataset with fewer pictures: its recipe in `scripts`, built in `out`. Read only."""
    return made_once(tmp_path_factory, "demo", make_demo)


@pytest.fixture(scope="session")
def other(recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another build of the tiny dataset: fewer rows per group, so other rows at each position. Read only."""

    def make(folder: Path) -> None:
        changed = Path(shutil.copytree(recipe.parent, folder / "recipe")) / recipe.name
        changed.write_text(changed.read_text().replace("per_group=", "per_group=-1 + "))
        build(str(changed), folder, workers=1, quiet=True)

    return made_once(tmp_path_factory, "other", make) / "shift" / "tiny"


@pytest.fixture
def copy(tiny: Path, tmp_path: Path) -> Path:
    """A copy of the tiny dataset to change."""
    return Path(shutil.copytree(tiny, tmp_path / "shift" / "tiny"))


@pytest.fixture
def in_tiny_out(tiny_out: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in the folder above `shift/`, as a user of plain `datasets` does."""
    monkeypatch.chdir(tiny_out)
    return tiny_out


@pytest.fixture(scope="session", params=["stylized", "continuous", "text", "table"])
def both_formats(
    request: pytest.FixtureRequest, tiny: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path]:
    """A dataset of each kind, as Parquet and as tars. Read only."""

    parquet = tiny if request.param == "stylized" else dataset_of(tmp_path_factory, request.param)
    return parquet, _as_tars(parquet, tmp_path_factory)


@pytest.fixture(scope="session")
def tars(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny dataset in WebDataset format. Read only."""
    return _as_tars(tiny, tmp_path_factory)


def _as_tars(parquet: Path, factory: pytest.TempPathFactory) -> Path:
    from shiftdata.data.exporting.webdataset import export

    name = f"{parquet.name}_wds"
    return made_once(factory, name, lambda out: export(parquet, out / name, shard_bytes=SMALL_TAR)) / name


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a bucket on an S3 server of our own, which the environment names."""
    s3fs = pytest.importorskip("s3fs")
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(port=0)
    server.start()
    try:
        host, port = server.get_host_and_port()
        url = f"http://{host}:{port}"
        for name, value in {
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret-of-the-house",
            "AWS_ENDPOINT_URL": url,
            "AWS_DEFAULT_REGION": "us-east-1",
        }.items():
            monkeypatch.setenv(name, value)
        s3fs.S3FileSystem.clear_instance_cache()  # of a server that is no more
        name = f"bucket-{uuid.uuid4().hex}"  # what one server holds, the next one has too
        s3fs.S3FileSystem().mkdir(name)
        yield name
    finally:
        server.stop()
