"""Figures for papers: vectors with their fonts, of a column's width, the same bytes in another process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest

from shiftdata.bench import Report
from shiftdata.bench.reporting.making import CAPTIONS
from shiftdata.cli.app import main
from shiftdata.errors import InputError
from tests.bench.synthetic import made_task, synthetic

HOSTILE = "50% of $x_1$ & \\input{/etc/passwd} <script>"


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    folder = tmp_path_factory.mktemp("figures") / "sweep"
    words = ["uda source=kind0 target=kind1", "uda source=kind1 target=kind2", "group-fairness k=2 mu=0.2"]
    words += ["group-fairness k=4 mu=0.2", "group-fairness k=4 mu=0.5"]
    methods = {"erm": (0.9, 0.4), "rwg": (0.85, 0.65), HOSTILE: (0.7, 0.9)}
    tasks = {words: made_task(words) for words in words}
    synthetic(
        folder, tasks=tasks, methods=methods, trials=1, seeds=2, steps=[1], rules=["last"], commit=HOSTILE
    )
    return folder


@pytest.fixture(scope="module")
def figures(sweep, tmp_path_factory):
    out = tmp_path_factory.mktemp("figures") / "out"
    assert main(["report", str(sweep), "--figures", str(out)]) == 0
    return out


def test_each_chart_is_two_files_and_a_caption(figures):
    names = sorted(path.stem for path in figures.glob("*.pdf"))
    assert names == sorted(path.stem for path in figures.glob("*.svg"))
    assert [re.sub(r"^\d\d-", "", name)[:14] for name in names] == ["group-fairness", "domain-adaptat"]
    captions = (figures / CAPTIONS).read_text(encoding="utf-8")
    assert re.findall(r"\\includegraphics\{(.*)\.pdf\}", captions) == names
    for said in (" test rows ", "2 seeds", "Selected by last", "Dataset table", "commit 50\\% of"):
        assert captions.count(said) == len(names)


def test_a_pdf_has_its_fonts_and_nothing_of_the_machine(figures):
    pypdf = pytest.importorskip("pypdf")
    for path in figures.glob("*.pdf"):
        read = pypdf.PdfReader(path)
        (page,) = read.pages
        assert float(page.mediabox.width) == pytest.approx(3.25 * 72, abs=1)
        assert not read.metadata
        assert not page.images
        for font in page["/Resources"]["/Font"].values():
            (below,) = font["/DescendantFonts"]
            assert below["/Subtype"] == "/CIDFontType2"  # Type 42: TrueType as it is
            assert "/FontFile2" in below["/FontDescriptor"]
        assert "rwg" in page.extract_text()


def test_an_svg_has_texts_and_no_pixels(figures):
    for path in figures.glob("*.svg"):
        tree = ET.parse(path)
        names = {node.tag.rpartition("}")[2] for node in tree.iter()}
        assert "text" in names
        assert not names & {"image", "script", "foreignObject"}
        assert tree.getroot().get("width") == "234pt"
        texts = ["".join(node.itertext()) for node in tree.iter() if node.tag.endswith("}text")]
        assert any("50% of $x_1$ & \\input" in text for text in texts)
        assert "<dc:date>" not in path.read_text(encoding="utf-8")


def test_no_name_is_read_as_latex(figures):
    captions = (figures / CAPTIONS).read_text(encoding="utf-8")
    for line in captions.splitlines():
        if line.startswith("  \\caption"):
            said = re.sub(
                r"\\[%&#_${}]|\$\\(pm|to|surd)\$|\\text[a-z]+\{\}", "", line[len("  \\caption{") : -1]
            )
            assert not re.search(r"[\\%&#_${}~^]", said)


@pytest.mark.slow
def test_another_process_writes_the_same_bytes(sweep, figures, tmp_path):
    (tmp_path / "matplotlibrc").write_text("font.size: 20\naxes.facecolor: red\n")
    line = ["report", str(sweep), "--figures", "again"]
    code = f"import sys; from shiftdata.cli.app import main; sys.exit(main({line!r}))"
    subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=os.environ | {"PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo"},
        check=True,
        capture_output=True,
    )
    again = sorted((tmp_path / "again").iterdir())
    assert [path.name for path in again] == sorted(path.name for path in figures.iterdir())
    assert [path.name for path in again if path.read_bytes() != (figures / path.name).read_bytes()] == []


def test_two_columns_are_wide(sweep, tmp_path, capsys):
    out = tmp_path / "report.html"
    line = ["report", str(sweep), "--figures", str(tmp_path / "wide"), "--width", "6.75", "--out", str(out)]
    assert main(line) == 0
    assert out.is_file()
    assert "2 figures as SVG and PDF" in capsys.readouterr().out
    assert "\\begin{figure*}" in (tmp_path / "wide" / CAPTIONS).read_text(encoding="utf-8")
    for path in (tmp_path / "wide").glob("*.svg"):
        assert ET.parse(path).getroot().get("width") == "486pt"


def test_without_a_chart_there_is_nothing_to_write(tmp_path):
    with pytest.raises(InputError, match="has no chart"):
        Report("empty", (), ()).write_figures(tmp_path / "none")
