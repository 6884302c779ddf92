"""The house rules that a reader relies on: light import, exported names, closed doors, pinned versions."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import shiftdata
from tests.paths import ROOT

QUESTION = re.compile(r"(What|Whether|How|Where|Which|Who)\b")
HEAVY = ["datasets", "huggingface_hub", "numpy", "onnxruntime", "pandas", "PIL", "pyarrow", "torch"]


def test_import_shiftdata_loads_nothing_heavy():
    code = (
        "import sys; before = set(sys.modules); import shiftdata; print(*sorted(set(sys.modules) - before))"
    )
    loaded = subprocess.check_output([sys.executable, "-I", "-c", code], text=True).split()
    assert [name for name in loaded if name.split(".")[0] in HEAVY] == []
    assert [name for name in loaded if name.startswith("shiftdata")] == ["shiftdata"]


#: What a verb that reads metadata takes half a second without.
SLOW = ["datasets", "huggingface_hub", "pandas", "pyarrow.dataset", "scipy", "torch"]


@pytest.mark.parametrize(
    ("words", "unwanted"),
    [
        ("--help", [*HEAVY, "builders.cli.build"]),
        ("list", [*SLOW, "builders"]),
        ("info tiny", SLOW),
        ("task tiny", SLOW),
        ("task tiny gf_k2_mu10", SLOW),  # by its file of keys
        ("task tiny group-fairness k=2 mu=0.1", SLOW),
    ],
)
def test_the_command_line_loads_what_it_needs(words, unwanted, tiny_out):
    code = (
        f"import sys, shiftdata.cli.app; assert not shiftdata.cli.app.main({words.split()})\n"
        f"assert not set(sys.modules) & set({unwanted})"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tiny_out, stdout=subprocess.DEVNULL)


def test_the_public_names_are_few_and_there():
    assert len(shiftdata.__all__) <= 20
    for name in shiftdata.__all__:
        assert getattr(shiftdata, name).__name__.rpartition(".")[2] == name
    assert set(shiftdata.__all__) <= set(dir(shiftdata))
    with pytest.raises(AttributeError, match=r"No shiftdata attribute laod_dataset"):
        shiftdata.laod_dataset  # noqa: B018


#: What is left of names and docstrings that say nothing, by room. These numbers may only become smaller.
LEFT_DOCSTRINGS: dict[str, int] = {
    "shiftdata/serve": 3,
}
LEFT_ONE: dict[str, int] = {
    "builders/albums": 4,
    "builders/describe": 4,
    "builders/filters": 5,
    "builders/make": 2,
    "builders/shifts": 6,
}


def test_docstrings_and_variables_are_named_as_the_field_names_them():
    questions, ones = Counter[str](), Counter[str]()
    for path in sorted([*ROOT.glob("shiftdata/**/*.py"), *ROOT.glob("builders/**/*.py")]):
        room = "/".join(path.relative_to(ROOT).parts[:2])
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                questions[room] += bool(QUESTION.match(ast.get_docstring(node) or ""))
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                ones[room] += node.id == "one"
            elif isinstance(node, ast.arg):
                ones[room] += node.arg == "one"
    assert {room: n for room, n in questions.items() if n > LEFT_DOCSTRINGS.get(room, 0)} == {}
    assert {room: n for room, n in ones.items() if n > LEFT_ONE.get(room, 0)} == {}


def test_the_lock_has_a_version_and_hashes_of_every_dependency():
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    parts = [config["project"]["dependencies"], *config["project"]["optional-dependencies"].values()]
    parts += [config["build-system"]["requires"], ["pip"], *config["dependency-groups"].values()]
    text = re.sub(r"(?m)^#.*\n", "", (ROOT / "constraints.txt").read_text()).replace("\\\n", "")
    pins: dict[str, str] = {}
    for line in text.splitlines():
        pin = re.fullmatch(r"([\w.-]+)==(\S+)( ; [^#]*?)?((\s+--hash=sha256:[0-9a-f]{64})+)", line.rstrip())
        assert pin, line[:100]
        pins[canonicalize_name(pin[1])] = pin[2]
    for requirement in map(Requirement, {line for part in parts for line in part if isinstance(line, str)}):
        assert pins[canonicalize_name(requirement.name)] in requirement.specifier, requirement
