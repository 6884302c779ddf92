"""Run a page of the docs as a reader does: its blocks in order, in one folder, with the outputs compared.

- The lines of a `console` block that begin with `$` are commands, the lines below a command its output.
- The `python` blocks of a page share one interpreter; a `text` block below one is its output.
- A `toml` block whose first line is `# NAME` is saved as that file.
- `<!-- not run: REASON -->` above a block skips it; `<!-- fails -->` expects its last command to fail.

The dataset of the tests is a small copy of the demo's. So a number or a hash matches any other one,
and `...` matches any text.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import shiftdata.cli.app

BLOCK = re.compile(r"(?:^<!-- (.*?) -->\n\n?)?^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MAINS = {"shiftdata": shiftdata.cli.app.main}


class Block(NamedTuple):
    """A fenced block and the comment above it."""

    comment: str
    kind: str
    text: str


def blocks(page: Path) -> list[Block]:
    return [Block(*match.groups(default="")) for match in BLOCK.finditer(page.read_text(encoding="utf-8"))]


def run_page(page: Path, replaced: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Run the blocks of a page in the current folder; return the names that its Python defined.

    Args:
        page: The Markdown file.
        replaced: Texts of its blocks that are replaced before they run, such as the steps of a training.
    """
    scope: dict[str, Any] = {"__name__": "__main__"}
    output = ""
    for comment, kind, text in blocks(page):
        if comment.startswith("not run: "):
            continue
        for long, short in (replaced or {}).items():
            text = text.replace(long, short)
        if kind == "python":
            with contextlib.redirect_stdout(io.StringIO()) as stream:
                exec(compile(text, page.name, "exec"), scope)
            output = stream.getvalue()
        elif kind == "console":
            for command, expected in commands(text):
                output, status = run_command(command)
                assert (status != 0) == (comment == "fails"), f"$ {command}\n{output}"
                compare(expected, output, command)
        elif kind == "toml" and (name := re.match(r"# (\S+)\n", text)):
            Path(name[1]).write_text(text, encoding="utf-8")
        elif kind == "text":
            compare(text, output, page.name)
    return scope


def commands(text: str) -> Iterator[tuple[str, str]]:
    """Yield each command of a console block with the output shown below it."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, expected = part.partition("\n")
        yield command, expected


def run_command(command: str) -> tuple[str, int]:
    """Return what a command prints and its exit status. Our own verbs run in this process: that is faster."""
    words = shlex.split(command, comments=True)
    for name, main in MAINS.items():
        own = name.split()
        if words[: len(own)] == own and not set(words) & {"|", ">", "&&"}:
            with (
                contextlib.redirect_stdout(io.StringIO()) as stream,
                contextlib.redirect_stderr(stream),
            ):
                status = main(words[len(own) :])
            return stream.getvalue(), status
    done = subprocess.run(
        ["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ
    )
    return done.stdout, done.returncode


def compare(expected: str, output: str, where: str) -> None:
    """Assert that an output has the expected parts in order, whatever its numbers, hashes and spaces are."""
    position, text = 0, " ".join(output.split())
    for part in expected.split("..."):
        pattern = re.escape(" ".join(part.split()))
        pattern = re.sub(r"\b[0-9a-f]{16,}\b", "<hash>", pattern)
        pattern = re.sub(r"\d(?:\d|,|\\\.(?=\d))*", r"[\\d.,]+", pattern).replace("<hash>", "[0-9a-f]+")
        match = re.compile(pattern).search(text, position)
        assert match, f"{where}\nexpected\n{expected}\ngot\n{output}"
        position = match.end()
