"""docs/losses.md: every example is short, runs after the lines at the top, and every name is there."""

from __future__ import annotations

import re
from importlib import import_module
from pkgutil import iter_modules

import pytest

from shiftdata.baselines import losses
from tests.paths import ROOT

MODULES = [import_module(f"shiftdata.baselines.losses.{each.name}") for each in iter_modules(losses.__path__)]
PUBLIC = sorted(name for module in MODULES for name in module.__all__)
PAGE = (ROOT / "docs" / "losses.md").read_text(encoding="utf-8")
PREAMBLE, *EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
NAMES = {"x", "y", "domain", "group", "z", "logits", "x_target", "z_target", "logits_target"}
NAMES |= {"encoder", "head", "optimizer"}


@pytest.mark.parametrize("example", EXAMPLES, ids=[text.split("\n")[0][:50] for text in EXAMPLES])
def test_an_example_runs(example):
    pytest.importorskip("sklearn")
    assert len(example.strip().splitlines()) <= 8
    names: dict[str, object] = {}
    exec(compile(PREAMBLE, "preamble", "exec"), names)
    assert names.keys() >= NAMES
    exec(compile(example, "example", "exec"), names)


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_has_an_entry_and_a_docstring(name):
    assert f"losses.{name}" in PAGE
    assert getattr(losses, name).__doc__
