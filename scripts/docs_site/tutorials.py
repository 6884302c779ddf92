"""Tutorials that are run: what their code prints stands below it, what it draws too.

A shell runs the lines of `console` blocks that begin with `$`; the blocks of `python` of a page share one
interpreter, as if they were typed one after the other. Each page begins in an empty folder.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any

REPO = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
LONGEST = 4_000  # signs of an output that are shown, the last ones
HOME = "/home/me"  # what a page calls the folder in which it was run


def run_tutorials(folder: Path) -> None:
    """Run every page of a folder, and write what came of it into the page."""
    for page in sorted(folder.glob("*.md")):
        print(f"running {page.stem}", flush=True)
        page.write_text(run_tutorial(page.read_text(encoding="utf-8"), page.parent), encoding="utf-8")


def run_tutorial(text: str, pictures: Path) -> str:
    """The text of a page with what its blocks print; pictures that they save are moved to a folder."""
    scope: dict[str, Any] = {"__name__": "__main__"}
    with tempfile.TemporaryDirectory() as scratch, chdir(scratch), _environment():

        def run(found: re.Match[str]) -> str:
            kind, code = found.groups()
            before = set(Path().glob("*.png"))
            said = _shell(code) if kind == "console" else _python(code, scope)
            said = said.replace(str(Path.cwd()), HOME)
            new = sorted(set(Path().glob("*.png")) - before)
            for picture in new:
                shutil.copyfile(picture, pictures / picture.name)
            output = f"\n```text\n{said.rstrip()[-LONGEST:]}\n```\n" if said.strip() else ""
            shown = "".join(f"\n![What it draws]({picture.name})\n" for picture in new)
            return f"{found[0]}{output}{shown}"

        return BLOCK.sub(run, text)


@contextmanager
def _environment() -> Iterator[None]:
    """Commands find this checkout, and nothing asks the network."""
    before = dict(os.environ)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    os.environ |= {"PYTHONPATH": str(REPO), "PATH": path, "HF_HUB_OFFLINE": "1", "COLUMNS": "100"}
    os.environ.pop("SHIFTDATA_HOME", None)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ |= before


def _shell(code: str) -> str:
    """Run the lines that begin with `$`; one that fails ends everything."""
    said = ""
    for line in code.splitlines():
        if line.startswith("$ "):
            done = subprocess.run(["bash", "-c", line[2:]], capture_output=True, text=True, check=False)
            if done.returncode:
                raise SystemExit(f"{line}\n{done.stdout}{done.stderr}")
            said += done.stdout
    return said


def _python(code: str, scope: dict[str, Any]) -> str:
    """Run a block; the value of an expression at its end is printed, as at a prompt."""
    stream, tree = io.StringIO(), ast.parse(code)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(stream):
        exec(compile(tree, "tutorial", "exec"), scope)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "tutorial", "eval"), scope)
            if value is not None:
                print(value if isinstance(value, str) else repr(value))
    return stream.getvalue()
