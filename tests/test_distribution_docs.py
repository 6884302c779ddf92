"""The examples of docs/distribution.md run, in its order, on the tiny dataset and a mirror of it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import huggingface_hub.constants
import pytest
from etils import epath

import shiftdata as sd
from tests.paths import ROOT
from tests.serve.serving import serving

DOC = ROOT / "docs" / "distribution.md"


def test_the_examples_of_the_docs_run(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    first, second = sd.info(tiny).nuisances[:2]
    words = {"sma_emoji": "tiny", "amber": first, "embers": second, "k=4": "k=2"}
    blocks = re.findall(r"```python\n(.*?)```", DOC.read_text(encoding="utf-8"), re.S)
    assert len(blocks) == 4
    monkeypatch.setattr("mlcroissant._src.core.constants.DOWNLOAD_PATH", epath.Path(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHIFTDATA_HOME", str(tiny.parent))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    names: dict[str, object] = {}
    with serving(tiny.parent) as mirror:
        words["http://lab:8000"] = words["https://huggingface.co"] = mirror.endpoint
        for block in blocks:
            for said, here in words.items():
                block = block.replace(said, here)
            exec(compile(block, "docs/distribution.md", "exec"), names)


def test_each_promise_names_a_test_that_exists():
    text = DOC.read_text(encoding="utf-8")
    promises = text[text.index("### What is promised") : text.index("### What verify checks")]
    rows = [
        line for line in promises.splitlines() if line.startswith("| ") and line != "| to | promise | test |"
    ]
    assert len(rows) > 20
    for row in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", row)
        assert named, row
        for path, name in named:
            assert f"\ndef {name}(" in (DOC.parent.parent / path).read_text(encoding="utf-8"), name


def test_the_page_on_security_leads_to_the_promises():
    page = (DOC.parent.parent / "SECURITY.md").read_text(encoding="utf-8")
    assert "docs/distribution.md#trust-who-may-do-what" in page
    assert "\n## Trust: who may do what\n" in DOC.read_text(encoding="utf-8")


#: Calls that read a format; in `shiftdata.untrusted` more, as ruff refuses them elsewhere.
READS = {
    "shiftdata/untrusted": r"(pq\.(ParquetFile|read_\w+)|Image\.open|json\.loads?|tomllib\.loads?|csv\.reader|"
    r"\w*csv\.read_csv|zipfile\.ZipFile|tarfile\.(open|TarFile)|zlib\.decompressobj|\w+\.decompress)$",
    "": r"(np\.(load|memmap)|torch\.load|pickle\.(loads?|Unpickler)|yaml\.\w*load|ElementTree\.\w+|h5py\.File|"
    r"\w+\.InferenceSession|(safetensors\w*\.)*load_file|resvg_py\.\w+|simplejpeg\.decode_\w+|MarkdownIt|"
    r"datasets\.load_dataset|\w+\.from_pretrained)$",
}


def parsers() -> set[str]:
    """Every `module:function` of the packages that reads bytes of a format; of `untrusted` the public ones."""
    found = set()
    for path in [path for top in ("shiftdata", "builders") for path in sorted((ROOT / top).rglob("*.py"))]:
        where = path.relative_to(ROOT).as_posix()
        inside = where.startswith("shiftdata/untrusted")
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = {
            getattr(part, "name", ""): {ast.unparse(node) for node in ast.walk(part)} for part in tree.body
            if isinstance(part, ast.FunctionDef | ast.ClassDef | ast.Assign)
        }
        pattern = "|".join(READS.values()) if inside else READS[""]
        reads = {name for name, words in names.items() if any(re.match(pattern, word) for word in words)}
        for _ in names if inside else ():  # through functions of the module
            reads |= {name for name, words in names.items() if words & reads}
        module = where.removesuffix(".py").replace("/", ".")
        found |= {f"{module}:{name or '*'}" for name in reads if not (inside and name.startswith("_"))}
    return found
