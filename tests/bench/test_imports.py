"""Sweeps of methods of one's own: one truth for the run, its status and its report, in any process."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from shiftdata.baselines.method import _OWN, _source_hash
from shiftdata.bench import Records, folder_sweep, progress_of, read_sweep, run_sweep
from shiftdata.errors import InputError

MODULE = "methods_of_an_import_test"
CODE = """
from torch.nn.functional import cross_entropy
from shiftdata.baselines import Method, method

@method("imported-by-a-test")
class Imported(Method):
    def loss(self, batch):
        return {loss}
"""
LOSS = "cross_entropy(self.network(batch.x), batch.y)"


def write_methods(folder: Path, loss: str = LOSS, end: str = "") -> None:
    (folder / f"{MODULE}.py").write_text(CODE.format(loss=loss) + end, encoding="utf-8")


def write_sweep(folder: Path, dataset: Path, kind: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(
        f'datasets = ["{dataset}"]\nmethods = ["erm", "imported-by-a-test"]\nimports = ["{MODULE}"]\n'
        '[[tasks]]\nprotocol = "group-fairness"\nk = 4\nmu = 0.2\n[training]\nsteps = 2\nbatch = 8\n'
        f'[search]\nkind = "{kind}"\ntrials = {1 if kind == "defaults" else 2}\nseeds = 2\n'
    )
    return path


@pytest.fixture
def forgotten(monkeypatch):
    """Calls that make this process one that has imported no method of a test."""

    def forget() -> None:
        sys.modules.pop(MODULE, None)
        _OWN.pop("imported-by-a-test", None)
        _source_hash.cache_clear()

    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield forget
    forget()


@pytest.mark.parametrize("kind", ["defaults", pytest.param("random", marks=pytest.mark.slow)])
def test_a_finished_sweep_is_finished_for_a_process_that_has_not_imported_its_methods(
    tiny, tmp_path, monkeypatch, forgotten, kind
):
    monkeypatch.chdir(tmp_path)
    write_methods(tmp_path)
    runs = tmp_path / "runs"
    run_sweep(read_sweep(write_sweep(tmp_path, tiny, kind)), runs)
    count = {"defaults": 4, "random": 8}[kind]
    forgotten()
    now = progress_of(folder_sweep(runs), runs)
    assert (now.runs, now.left, now.recorded["done"]) == (count, 0, count)
    forgotten()
    trained = []
    run_sweep(folder_sweep(runs), runs, on_unit=lambda unit, _: trained.append(unit))
    assert trained == []

    write_methods(tmp_path, end="# Code as before.\n")
    forgotten()
    assert progress_of(folder_sweep(runs), runs).left == 0
    write_methods(tmp_path, loss=f"2 * {LOSS}")
    forgotten()
    assert progress_of(folder_sweep(runs), runs).left == count // 2
    run_sweep(folder_sweep(runs), runs, on_unit=lambda unit, _: trained.append(unit))
    assert {unit.runs[0].job.method for unit in trained} == {"imported-by-a-test"}
    assert len(trained) == count // 2
    assert len(Records.read(runs)) == count  # in the place of those of the code before


def test_a_module_that_cannot_be_imported_is_named_with_what_to_do(tiny, tmp_path, monkeypatch, forgotten):
    path = write_sweep(tmp_path, tiny, "defaults")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=f"imports {MODULE}, which fails in {tmp_path}.*PYTHONPATH"):
        read_sweep(path)
