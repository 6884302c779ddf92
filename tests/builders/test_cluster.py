"""Builds on a real Ray cluster: equal bytes, whatever is killed; nodes that differ are refused."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from builders.make import render
from builders.make.build import build
from builders.spool import Spool
from shiftdata.data.executors import Ray
from shiftdata.errors import InputError
from tests.builders.test_build import ROOT, files, how_many, start
from tests.ray_cluster import kill_node, kill_worker, ray_cluster

pytestmark = pytest.mark.slow
BLOCKS = ".work/tiny/spool-*/**/*.arrow"


@pytest.fixture
def cluster() -> Iterator[Any]:
    with ray_cluster() as made:
        yield made


@pytest.fixture
def slowly(recipe: Path, tmp_path: Path) -> Path:
    """The tiny recipe with a pause of 20 ms before each picture: the same bytes, later."""
    folder = Path(shutil.copytree(recipe.parent, tmp_path / "recipe"))
    text = (folder / recipe.name).read_text()
    pause = "        for sample in samples:\n"
    (folder / recipe.name).write_text(
        text.replace(pause, f"{pause}            __import__('time').sleep(0.02)\n")
    )
    return folder / recipe.name


def examples_of(folder: Path) -> dict[str, bytes]:
    """Every file but those that name the recipe, whose code `slowly` changes."""
    named = ("manifest.json", "README.md", "croissant.json")
    return {path: data for path, data in files(folder).items() if path not in named}


def until(process: subprocess.Popen[str], reached: Callable[[], bool]) -> None:
    while not reached():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


def test_with_a_worker_killed_a_node_while_it_renders_and_another_while_it_packs_the_bytes_are_equal(
    slowly, tiny, tmp_path, cluster
):
    node = cluster.add_node(num_cpus=1)
    with start(slowly, tmp_path, "--ray", cluster.address) as process:
        until(process, lambda: how_many(tmp_path, BLOCKS) >= 4)
        assert kill_worker(cluster.head_node)
        until(process, lambda: how_many(tmp_path, BLOCKS) >= 8)
        kill_node(cluster, node)
        late = cluster.add_node(num_cpus=1)
        until(process, lambda: kill_worker(late))  # it has some: it is used
        until(process, lambda: how_many(tmp_path, ".work/tiny/packing") == 1)
        kill_node(cluster, late)
        output, errors = process.communicate(timeout=120)
    addresses = {of.node_ip_address for of in (cluster.head_node, node, late)}
    assert addresses == {"127.0.0.2", "127.0.0.3", "127.0.0.4"}
    assert process.returncode == 0, errors
    assert errors == ""
    assert "extended: train 400, validation 160, test 240" in output
    assert "raylet" not in output
    assert examples_of(tmp_path / "shift/tiny") == examples_of(tiny)


def test_nodes_need_neither_the_raw_files_nor_the_folder_of_the_dataset(
    slowly, tiny, tmp_path, bucket, monkeypatch
):
    """They share an object store with the process that lists the raw files, and the code."""
    text = slowly.read_text()
    slowly.write_text(
        text.replace('Path(__file__).parent / "pictures"', 'Path(__import__("os").environ["PICTURES"])')
    )
    pictures = slowly.parent / "pictures"
    monkeypatch.setenv("PICTURES", str(tmp_path / "missing"))
    with ray_cluster() as cluster:
        cluster.add_node(num_cpus=1)
        monkeypatch.setenv("PICTURES", str(pictures))
        place = f"s3://{bucket}/spools"
        folder = build(str(slowly), tmp_path / "own", executor=Ray(cluster.address), spool=place, quiet=True)
    assert examples_of(folder) == examples_of(tiny)
    assert [path.name for path in (tmp_path / "own").iterdir() if path.name != ".work"] == ["shift"]
    assert Spool(f"{place}/tiny").files.listed() == set(), "nor is anything left in the store"


def test_killed_and_started_again_a_build_goes_on(slowly, tiny, tmp_path, cluster):
    with start(slowly, tmp_path, "--ray", cluster.address) as process:
        until(process, lambda: how_many(tmp_path, BLOCKS) >= 4)
        os.kill(process.pid, signal.SIGKILL)
    folder = build(str(slowly), tmp_path, executor=Ray(cluster.address), quiet=True)
    assert examples_of(folder) == examples_of(tiny)


def test_a_node_with_another_library_is_refused_by_name(slowly, tmp_path, cluster):
    (tmp_path / "other/pillow-1.2.3.dist-info").mkdir(parents=True)
    (tmp_path / "other/pillow-1.2.3.dist-info/METADATA").write_text("Name: pillow\nVersion: 1.2.3\n")
    path = os.pathsep.join([str(tmp_path / "other"), *sys.path])
    cluster.add_node(num_cpus=4, env_vars={"PYTHONPATH": path})
    with pytest.raises(InputError, match=r"the node \S+ has pillow 1\.2\.3, not \d+"):
        build(str(slowly), tmp_path, executor=Ray(cluster.address), quiet=True)


def test_a_spool_that_nodes_do_not_share_is_said(slowly, tmp_path, cluster, monkeypatch):
    monkeypatch.setattr(render, "SEEN_WITHIN", 0.5)
    # As on a disk of its own: what a node has written is not there for the process that asked for it.
    monkeypatch.setattr(render.Spool, "__contains__", lambda *_: False)
    with pytest.raises(InputError, match=r"was rendered, and is not in .* all nodes share .* --spool s3://"):
        build(str(slowly), tmp_path, executor=Ray(cluster.address), quiet=True)


def test_the_commands_of_the_page_run(tmp_path):
    """As they are written there, on one machine; `--block` makes the nodes end with their commands."""
    page = (ROOT / "docs/cluster.md").read_text().partition("## Ray")[2]
    commands = [line.partition("  #")[0].strip() for line in page.splitlines() if line.startswith("    ")]
    _, *nodes, build_it, _ = commands
    assert [command.split()[:2] for command in nodes] == [["ray", "start"]] * 2
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}  # of this test alone
    options = {"cwd": ROOT, "env": {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), **token}}
    started = []
    try:
        for command in nodes:
            words = [*command.replace("6379", port).split(), "--block"]
            started.append(subprocess.Popen(words, start_new_session=True, **options))
            time.sleep(15)
            assert started[-1].poll() is None
        words = build_it.replace("shared", str(tmp_path)).split()
        subprocess.run([*words, f"127.0.0.1:{port}"], check=True, timeout=300, **options)
    finally:
        for node in started:
            os.killpg(node.pid, signal.SIGTERM)
            node.wait(60)
    assert (tmp_path / "shift/digits_ink/manifest.json").is_file()
