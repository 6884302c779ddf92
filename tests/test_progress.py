"""Bars of jobs that are called from Python: where somebody watches, and nowhere else."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace

import shiftdata as sd


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def trained(tiny, monkeypatch, stream: io.StringIO, **more) -> str:
    monkeypatch.setattr(sys, "stderr", stream)
    task = sd.task(str(tiny), "group-fairness", k=2, mu=0.1)
    sd.train(task, "erm", steps=3, batch_size=8, **more)
    return stream.getvalue()


def test_a_training_counts_its_steps_in_a_terminal_and_in_a_notebook(tiny, monkeypatch):
    assert "3.00/3.00" in trained(tiny, monkeypatch, Terminal())
    assert trained(tiny, monkeypatch, io.StringIO()) == ""
    steps: list[tuple[int, int]] = []
    assert trained(tiny, monkeypatch, Terminal(), on_step=lambda *counts: steps.append(counts)) == ""
    assert steps == [(1, 3), (2, 3), (3, 3)]
    monkeypatch.setenv("RANK", "1")
    assert trained(tiny, monkeypatch, Terminal()) == ""  # the first of several processes has the bar
    monkeypatch.delenv("RANK")
    kernel = SimpleNamespace(kernel=object(), config={})  # without ipywidgets
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: kernel))
    assert "3.00/3.00" in trained(tiny, monkeypatch, io.StringIO())


def test_files_are_counted_in_bytes(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stderr", stream := Terminal())
    folder = sd.fetch(tiny, out=tmp_path / "out")
    assert f"fetch: {sd.info(folder).bytes / 1e6:.2f}MB" in stream.getvalue()
    assert sd.verify(folder) == []
    assert "verify: " in stream.getvalue()
