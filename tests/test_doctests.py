"""The examples in docstrings of both packages. To collect them module by module takes each worker seconds."""

from __future__ import annotations

import doctest
from importlib import import_module

import pytest

from tests.paths import ROOT

MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for package in ("shiftdata", "builders")
    for path in (ROOT / package).rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_of_docstrings_run(module):
    ran = doctest.testmod(import_module(module.removesuffix(".__init__")))
    assert ran.attempted
    assert not ran.failed
