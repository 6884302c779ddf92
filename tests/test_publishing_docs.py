"""Examples of the pages on mirrors, fetching and exports run; docs/trust.md has every parser and promise."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import huggingface_hub.constants
import pytest

import shiftdata as sd
from tests.paths import ROOT
from tests.serve.serving import serving

DOCS = ROOT / "docs"


@pytest.mark.slow
def test_the_examples_of_the_docs_run(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    first, second = sd.info(tiny).nuisances[:2]
    words = {"sma_glyphs": "tiny", "amber": first, "embers": second, "k=4": "k=2"}
    pages = [
        (DOCS / f"{name}.md").read_text(encoding="utf-8") for name in ("mirror", "fetching", "exporting")
    ]
    blocks = re.findall(r"```python\n(.*?)```", "".join(pages), re.S)
    assert len(blocks) == 3
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHIFTDATA_HOME", str(tiny.parent))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    names: dict[str, object] = {}
    with serving(tiny.parent) as mirror:
        words["http://lab:8000"] = words["https://huggingface.co"] = mirror.endpoint
        for block in blocks:
            for said, here in words.items():
                block = block.replace(said, here)
            exec(compile(block, "docs", "exec"), names)


#: Calls that read a format. Ruff refuses the first ones outside of `shiftdata.untrusted`.
BOUNDED = (
    r"pq\.(ParquetFile|read_\w+)|(Image|csv|tarfile|gzip|bz2|lzma)\.(open|OPEN|reader|decompress|DictReader)|"
    r"json\.(loads?|JSONDecoder)|tomllib\.loads?|\w*csv\.read_csv|zipfile\.ZipFile|zlib\.decompress\w*|npy\.\w+"
)
OTHERS = (
    r"np\.(load|memmap)|torch\.load|pickle\.(loads?|Unpickler)|yaml\.\w*load|ElementTree\.\w+|h5py\.File|"
    r"InferenceSession|load_file|resvg_py\.\w+|MarkdownIt|datasets\.load_dataset|from_pretrained"
)


def test_each_parser_of_foreign_bytes_has_a_row():
    """A function that reads a format, or a public one of `untrusted`, stands in the table of parsers."""
    rows = {
        f"{module}:{name}"
        for line in lines_of("trust", "## What reads the bytes of others")
        for module, names in re.findall(r"`([\w.]+)`: ((?:`\w+`(?:, )?)+)", line)
        for name in re.findall(r"`(\w+)`", names)
    }
    found = parsers()
    assert found - rows == set(), "without a row in docs/trust.md"
    assert rows - found == set(), "reads nothing any more"


def parsers() -> set[str]:
    """Every `module:function` that reads a format; of `shiftdata.untrusted` those that others call."""
    found = set()
    for path in sorted([*(ROOT / "shiftdata").rglob("*.py"), *(ROOT / "builders").rglob("*.py")]):
        module = path.relative_to(ROOT).as_posix().removesuffix(".py").replace("/", ".")
        text = path.read_text(encoding="utf-8")
        bounded = module.startswith("shiftdata.untrusted.")
        pattern = re.compile(rf"(.*\.)?({BOUNDED}|{OTHERS})" if bounded else rf"(.*\.)?({OTHERS})")
        parts = {
            name: {ast.unparse(node) for node in ast.walk(part) if isinstance(node, ast.Name | ast.Attribute)}
            for part in ast.parse(text if re.search(OTHERS, text) or bounded else "").body  # or it takes long
            for name in defined(part)
        }
        reads = {name for name, words in parts.items() if any(map(pattern.fullmatch, words))}
        for _ in parts if bounded else ():  # through others of the module
            reads |= {name for name, words in parts.items() if words & reads}
        found |= {
            f"{module}:{name}"
            for name in reads
            if not bounded or not (name.startswith("_") or name.isupper())
        }
    return found


def defined(part: ast.stmt) -> list[str]:
    if isinstance(part, ast.FunctionDef | ast.ClassDef):
        return [part.name]
    target = part.targets[0] if isinstance(part, ast.Assign) else getattr(part, "target", None)
    return [ast.unparse(target)] if target is not None else []


def test_each_promise_names_a_test_that_exists():
    numbers = {}
    for title in ("# Trust: who may do what", "## What reads the bytes of others"):
        rows = [line for line in lines_of("trust", title) if line.startswith("| ")]
        numbers |= {row.split(" | ")[-1]: row for row in rows if re.search(r"\| \d+ \|$", row)}
        proved = [row for row in rows if "::" in row]
        assert len(proved) > 10
        for row in proved:
            numbers.pop(row.removeprefix("| ").split(" | ")[0] + " |", None)
            for path, name in re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", row):
                assert f"\ndef {name}(" in (ROOT / path).read_text(encoding="utf-8"), name
        assert title == "# Trust: who may do what" or all("::" in row for row in rows[1:])
    assert numbers == {}


def lines_of(page: str, title: str) -> list[str]:
    """Return the lines below a heading of a page."""
    text = "\n" + (DOCS / f"{page}.md").read_text(encoding="utf-8")
    _, found, rest = text.partition(f"\n{title}\n")
    assert found
    return rest.partition("\n##")[0].splitlines()


def test_each_environment_variable_has_a_row():
    files = [*(ROOT / "shiftdata").rglob("*.py"), *(ROOT / "builders").rglob("*.py")]
    read = set(
        re.findall(
            r'"((?:SHIFTDATA|XDG)_\w+|HF_HOME)"', "".join(f.read_text(encoding="utf-8") for f in files)
        )
    )
    assert len(read) >= 10
    assert (
        read - set(re.findall(r"`(\w+)`", "".join(lines_of("fetching", "## Environment variables")))) == set()
    )


def test_the_page_on_security_leads_to_the_promises():
    assert "(docs/trust.md)" in (ROOT / "SECURITY.md").read_text(encoding="utf-8")
