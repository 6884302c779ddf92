"""Run the notebooks of docs/notebooks, and store what they show.

    python scripts/regenerate_notebooks.py [NAME ...]

They need what `make demo` makes. Bars, timings and paths of the machine are left out.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

REPO = Path(__file__).parents[1]
NOTEBOOKS = REPO / "docs" / "notebooks"
BAR = re.compile(r"\d+%\||\[\d\d:\d\d")


def executed(path: Path, folder: Path, replaced: Mapping[str, str] | None = None) -> Any:
    """Run a notebook in a folder, with texts of its cells replaced; an error of a cell is raised."""
    notebook = nbformat.read(path, 4)
    for cell in notebook.cells:
        for long, short in (replaced or {}).items():
            cell.source = cell.source.replace(long, short)
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    where = {"metadata": {"path": str(folder)}}
    client = NotebookClient(
        notebook, timeout=600, resources=where, record_timing=False, coalesce_streams=True
    )
    with tempfile.TemporaryDirectory() as sockets:
        manager = client.create_kernel_manager()
        manager.transport, manager.ip = "ipc", f"{sockets}/kernel"  # no port
        client.execute()
    return notebook


def store(notebook: Any, path: Path, scratch: str) -> None:
    """Write a notebook without what differs on another machine."""
    notebook.metadata.language_info = {"name": "python"}
    for cell in notebook.cells:
        outputs = [output for output in cell.get("outputs", []) if output.get("name") != "stderr"]
        for output in outputs:
            if "image/jpeg" in output.get("data", {}):
                output.data.pop("image/png", None)  # the same picture
            for holder in (output, output.get("data", {})):
                for kind in {"text", "text/plain", "text/html"} & holder.keys():
                    holder[kind] = _without_machine(holder[kind], scratch)
        if "outputs" in cell:
            cell.outputs = outputs
    nbformat.write(notebook, path)


def _without_machine(text: str, scratch: str) -> str:
    lines = [line.rpartition("\r")[2] for line in text.replace("\r\n", "\n").split("\n")]
    text = "\n".join(line for line in lines if not BAR.search(line))
    text = re.sub(rf"{re.escape(scratch)}/\w+/", "", text)
    text = re.sub(r"seconds \d[\d.]*", "seconds ...", text)
    return text.replace(f"{(REPO / 'build').resolve()}", "build").replace(f"{REPO}/", "")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", default=sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb")))
    for name in parser.parse_args().names:
        path = NOTEBOOKS / f"{name}.ipynb"
        with tempfile.TemporaryDirectory() as scratch:
            os.environ["TMPDIR"] = scratch
            store(executed(path, REPO), path, scratch)
        print(f"{path.relative_to(REPO)}: {path.stat().st_size / 1000:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
