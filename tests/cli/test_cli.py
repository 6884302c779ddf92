from __future__ import annotations

import re
import subprocess
import sys

import click
import pytest

import shiftdata as sd
import shiftdata.cli.app
import shiftdata.cli.fetch
import shiftdata.cli.list
from builders.describe.contact_sheet import CELL, GAP, contact_sheet
from shiftdata.cli.app import APP
from shiftdata.data.format.manifest import Manifest
from shiftdata.evaluation.charts import margins


def run(main, capsys, *arguments: str) -> tuple[int, str, str]:
    status = main(arguments)
    return (status, *capsys.readouterr())


@pytest.fixture
def home(tiny, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHIFTDATA_HOME", str(tiny.parent))


def test_list(home, capsys):
    status, output, _ = run(shiftdata.cli.app.main, capsys, "list")
    assert status == 0
    assert output.split()[:4] == ["tiny", "stylized", "1,360", "rows"]


def test_list_says_where_it_looked_when_there_is_nothing(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SHIFTDATA_HOME", raising=False)
    output = run(shiftdata.cli.app.main, capsys, "list")[1]
    assert output.startswith("no dataset in build/shift, shift. What to do:\n  SHIFTDATA_HOME=")


def test_info(home, capsys):
    output = run(shiftdata.cli.app.main, capsys, "info", "tiny")[1]
    assert "gf_k2_mu10              train 16, validation 16, test 24" in output
    assert "labels (4): bar, disc, ring, wedge" in output
    assert "licence: CC0-1.0" in output


def test_load(home, capsys):
    output = run(
        shiftdata.cli.app.main, capsys, "load", "tiny", "gf_k2_mu10", "--split", "test", "--rows", "2"
    )[1]
    assert output.count("'split': 'test'") == 2
    assert "'label': '3 (wedge)', 'style': '0 (blue)'" in output
    assert "(wedge / blue)'" in output


def test_verify(home, copy, capsys):
    status, output, _ = run(shiftdata.cli.app.main, capsys, "verify", "tiny")
    assert (status, output.splitlines()[-1]) == (0, "all well")
    (copy / "protocols/gf_k2_mu10.parquet").unlink()
    status, output, _ = run(shiftdata.cli.app.main, capsys, "verify", str(copy))
    assert status == 1
    assert "protocols/gf_k2_mu10.parquet: is missing" in output


def test_an_error_is_one_line_and_a_status(home, capsys):
    status, output, errors = run(shiftdata.cli.app.main, capsys, "info", "tinny")
    assert (status, output) == (1, "")
    assert errors.startswith("error: unknown dataset 'tinny'; did you mean 'tiny'?")


def test_a_reader_that_has_seen_enough_is_no_error(home):
    command = f"{sys.executable} -m shiftdata task tiny --set train | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert (done.stdout.count("\n"), done.stderr) == (1, "")


VERBS = [(name, summary) for verbs in APP.by_role().values() for name, summary in verbs.items()]


@pytest.mark.parametrize(("name", "summary"), VERBS)
def test_every_verb_explains_itself(name, summary, capsys):
    status, output, _ = run(APP.run, capsys, name, "-h")
    assert status == 0
    assert f"  {name:<13}{summary}\n" in run(APP.run, capsys, "--help")[1]
    verb = APP.resolve_command(click.Context(APP), [name])[1]
    assert verb.help
    assert f"shiftdata {name}" in verb.epilog
    documented = [param for param in verb.params if param.help]
    assert documented == verb.params
    assert "example" in output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["lod"], "No such command 'lod'. Did you mean 'load'?"),
        (["verify", "tiny", "--file-only"], "No such option '--file-only'. Did you mean"),
        (["info"], "Missing argument 'DATASET'"),
        (["load", "tiny", "--rows", "0"], "0 is not in the range x>=1"),
        (["export", "tiny", "--to", "tars"], "'tars' is not one of 'webdataset'"),
        ([], "Usage:"),
    ],
)
def test_a_command_that_cannot_be_read_is_answered(words, said, capsys):
    status, output, errors = run(shiftdata.cli.app.main, capsys, *words)
    assert (status, output) == (2, "")
    assert said in errors


@pytest.mark.parametrize(
    ("words", "said"), [(["list"], "starts again from the beginning"), (["fetch", "x"], "goes on where")]
)
def test_ctrl_c_says_what_the_same_command_will_do(words, said, monkeypatch, capsys):
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("shiftdata.cli.list.list_datasets", stop)
    monkeypatch.setattr("shiftdata.cli.fetch.fetch", stop)
    status, _, errors = run(shiftdata.cli.app.main, capsys, *words)
    assert status == 130
    assert said in errors


def test_build_and_check(recipe, tmp_path, capsys):
    out = str(tmp_path)
    options = ("--out", out, "--bases", "mini", "--workers", "1", "--quiet")
    status, output, _ = run(shiftdata.cli.app.main, capsys, "build", str(recipe), *options)
    assert status == 0
    assert "mini: train 200, validation 80, test 120" in output
    assert run(shiftdata.cli.app.main, capsys, "check", f"{out}/shift/tiny")[:2] == (
        0,
        f"{out}/shift/tiny: all well\n",
    )
    (tmp_path / "shift/tiny/README.md").unlink()
    assert run(shiftdata.cli.app.main, capsys, "check", f"{out}/shift/tiny")[0] == 1


def test_contact_sheet(tiny):
    manifest = Manifest.read(tiny)
    sheet = contact_sheet(tiny, manifest)
    left, top = margins(manifest.labels, ["content", *manifest.nuisances])
    assert sheet.size == (left + 6 * (CELL + GAP), top + 4 * (CELL + GAP))
    # The ground of each tint stands in its column, in every row: content, blue, cyan, green, red, yellow.
    for y in range(4):
        height = top + y * (CELL + GAP) + 2
        corners = [sheet.getpixel((left + x * (CELL + GAP) + 2, height)) for x in range(6)]
        assert corners[0] == (244, 241, 234)
        assert corners[1] == (122, 120, 244)
        assert corners[4] == (249, 120, 117)
        assert len(set(corners)) == 6


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("evaluate none.parquet p.csv", r"no frozen task none\.parquet: `shiftdata task .* --freeze none"),
        ("train tiny none.parquet", r"no frozen task none\.parquet: `shiftdata task .* --freeze none"),
        (
            "evaluate tiny gf_k2_mu10 p.csv",
            r"no predictions at p\.csv: name a file .*`shiftdata train .*--folder",
        ),
        (
            "evaluate tiny gf_k2_mu10 p.npy",
            r"no predictions at p\.npy: name a file .*`shiftdata train .*--folder",
        ),
        ("evaluate tiny gf_k2_mu10 runs/erm", r"no predictions at runs/erm: name a file "),
        ("sweep none.toml", r"no sweep file none\.toml: give .* a preset: .*domainbed-v2"),
    ],
)
def test_a_missing_file_is_named_with_what_makes_it(home, capsys, command, message):
    status, _, error = run(shiftdata.cli.app.main, capsys, *command.split())
    assert status == 1
    assert re.match(rf"error: there (is|are) {message}", error)
    assert "Errno" not in error


def test_an_error_of_the_system_is_said_with_its_path_first(home, capsys, tiny, tmp_path):
    task = sd.task(tiny, "gf_k2_mu10")
    lines = [f"{key},{task.labels[0]}" for key in task.keys("test")]
    (tmp_path / "p.csv").write_text("\n".join(["key,prediction", *lines]))
    words = ["evaluate", "tiny", "gf_k2_mu10", "p.csv", "--picture", "none/p.png"]
    status, _, error = run(shiftdata.cli.app.main, capsys, *words)
    assert status == 1
    assert re.search(r"^error: \S*none/p\.png: No such file or directory\. Check the path", error)
