"""Records in the forms of the papers' tables: places, totals, digits, the papers' numbers, ranks."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

from shiftdata.bench import Records, report
from shiftdata.bench.papers import published
from shiftdata.bench.reporting.layouts import LAYOUTS, is_named
from shiftdata.bench.reporting.scores import scores_of
from shiftdata.cli.app import main
from shiftdata.errors import InputError, NotFoundError
from tests.bench.synthetic import made_task, synthetic
from tests.evaluation.protocols.made import NICO, metadata

SKILLS = {"erm": (0.8, 0.6), "coral": (0.85, 0.7), "irm": (0.5, 0.3), "mine": (0.9, 0.9)}
#: The second split of the paper tests A, Wi, Da, Di.
CLASSIC = "classic-dg split=2"
LODO = ("leave-one-domain-out test=kind0", "leave-one-domain-out test=kind1")


def grid(table, part=0):
    block = table.blocks[part]
    return {
        (row, column): cell
        for row, *cells in block.body
        for column, cell in zip(block.columns, cells, strict=True)
    }


def one_table(records, name, *rules):
    (section,) = report(records, rules, tables=[name]).sections
    (table,) = section.tables
    return table


@pytest.fixture(scope="module")
def tasks():
    of = metadata(6, NICO, 20)
    return {text: made_task(text, of) for text in (CLASSIC, f"{CLASSIC} oracle")}


@pytest.fixture(scope="module")
def real(tasks, tmp_path_factory):
    """Two steps, two trials and three seeds of four methods on what says it is NICO++."""
    folder = tmp_path_factory.mktemp("nico")
    skills = SKILLS | {"swad": (0.7, 0.7)}
    return synthetic(folder, tasks=tasks, methods=skills, rules=("iid", "oracle"), dataset="nico")


def test_a_table_has_the_papers_rows_in_its_order_with_its_numbers_below(real):
    table = one_table(real, "nico++ 2")
    block = table.blocks[0]
    assert block.header == ("test A, Wi, Da, Di", "A", "Wi", "Da", "Di", "Ova.", "Avg.", "Std")
    assert [row for row, *_ in block.body] == [
        "Deepall", "Deepall, paper", "SWAD", "SWAD, paper", "CORAL", "CORAL, paper", "IRM", "IRM, paper",
        "Oracle", "Oracle, paper", "mine",
    ]  # fmt: skip
    printed = published("nico++", 2, part="test A, Wi, Da, Di", method="CORAL")
    assert list(block.body[5][1:]) == [row["printed"] for row in printed]


def test_totals_are_of_the_domains_and_have_the_papers_digits(real):
    cells = grid(one_table(real, "nico++ 2"))
    score = next(
        score
        for score in scores_of(real, "iid")[0]
        if score.method == "coral" and "oracle" not in score.selected.study.task
    )
    means = [of.mean() for of in score.domains.values()]
    assert cells["CORAL", "A"] == f"{score.domains['autumn'].mean():.2f}"
    assert cells["CORAL", "Avg."] == f"{np.mean(means):.2f}"
    assert cells["CORAL", "Std"] == f"{np.std(means):.2f}"  # divided by K, as the paper's are
    assert cells["CORAL", "Ova."] == f"{score.figures['overall'].mean():.2f}"


def test_ranks_are_compared_over_the_methods_that_both_have(real):
    notes = "\n".join(one_table(real, "nico++ 2").notes)
    assert "Ranks of 5 here (test A, Wi, Da, Di) and in the paper: Spearman" in notes
    assert "In the paper and not here: MMLD, RSC" in notes
    assert "Stand-in" not in notes


def test_a_stand_in_is_marked_and_has_no_number_of_the_paper_next_to_it(tasks, tmp_path):
    records = synthetic(tmp_path, tasks=tasks, methods=SKILLS, rules=("iid",), dataset="letters/mini")
    table = one_table(records, "nico++ 2")
    assert table.blocks[0].header[0] == "autumn, dark, dim, winter, letters (stand-in)"
    assert table.blocks[0].columns == ("autumn", "dark", "dim", "winter", "Ova.", "Avg.", "Std")
    assert [row for row, *_ in table.blocks[0].body] == ["Deepall", "CORAL", "IRM", "Oracle", "mine"]
    assert "Stand-ins for the paper's data: letters/mini. Compare ranks, not values." in table.notes


def test_the_variance_of_table_4_is_over_steps_over_seeds_and_of_the_oracle(real):
    cells = grid(one_table(real, "nico++ 4"))
    score, spread = next(score for score in scores_of(real, "iid")[0] if score.method == "swad"), []
    for at in score.selected.runs:
        tests = [real.evaluation(at.run, "test", step).by("nuisance").accuracy.mean() for step in (10, 20)]
        spread.append(100 * np.std(tests, ddof=1))
    assert len(spread) == 3
    assert float(cells["SWAD", "seed spread"]) > 0
    assert float(cells["SWAD", "oracle gap"]) >= 0
    alone = grid(one_table(real.where(method="swad", task_id=score.task_id), "nico++ 4"))
    assert float(alone["SWAD", "epoch spread"]) == pytest.approx(np.mean(spread), abs=0.006)


def test_a_probe_stands_over_fine_tuning_with_its_gap(tmp_path):
    of = metadata(4, 4, 20)
    tasks = {text: made_task(text, of) for text in LODO}
    for name, backbone, skill in (("lp", "linear@net", (0.5, 0.5)), ("ft", "net", (0.8, 0.8))):
        synthetic(
            tmp_path / name, tasks=tasks, methods={"erm": skill}, sweep=name, backbone=backbone, trials=1,
            rules=("last",),
        )  # fmt: skip
    records = Records.read(tmp_path / "lp", tmp_path / "ft")
    cells = grid(one_table(records, "domainbed-v2 1"))
    assert list(dict.fromkeys(row for row, _ in cells)) == ["LP", "FT"]
    assert {column for _, column in cells} == {"kind0", "kind1", "Avg"}
    assert all("±" in cell for cell in cells.values())
    gap = grid(one_table(records, "domainbed-v2 2"))
    lp, ft = (float(cells[row, "kind1"].partition("±")[0]) for row in ("LP", "FT"))
    assert float(gap["Gap", "kind1"]) == pytest.approx((lp - ft) / ft, abs=2e-3)
    assert {row for row, _ in gap} == {"Gap"}


def test_leakage_falls_with_the_number_of_test_domains(tmp_path):
    of = metadata(6, ("a", "b", "c", "d", "e"), 20)
    tasks = {text: made_task(text, of) for text in ("domainbed-v2 test=a,b,c",)}
    records = synthetic(tmp_path, tasks=tasks, methods={"erm": (0.6, 0.6)}, trials=6, seeds=1, rules=("iid",))
    cells = grid(one_table(records, "domainbed-v2 4"))
    leaked = [float(cells[f"Oracle, K={k}", "leakage"]) for k in (1, 2, 3)]
    assert leaked == sorted(leaked, reverse=True)
    assert leaked[0] > 0
    assert cells["IID", "leakage"] == "0.00"
    every = [records.evaluation(run, "test", step) for run in range(len(records)) for step in (10, 20)]
    best = max(100 * result.by("nuisance").accuracy[0] for result in every)
    assert float(cells["Oracle, K=1", "a"]) == pytest.approx(best, abs=0.006)
    assert float(cells["Oracle, K=3", "change"]) == pytest.approx(100 * (leaked[2] / leaked[0] - 1), abs=1.6)


def test_models_stand_by_scale_and_by_shift(tmp_path):
    of = metadata(4, ("fog", "snow"), 20, severities=(0.0, 0.5, 1.0))
    tasks = {"continuous": made_task("continuous", of)}
    skills = {"resnet18.a1_in1k": (0.9, 0.9), "resnet50.a1_in1k": (0.7, 0.7)}
    records = synthetic(
        tmp_path, tasks=tasks, methods=skills, trials=1, seeds=1, rules=("last",), dataset="cns_bench"
    )
    table = one_table(records, "cns-bench 2")
    assert [block.part for block in table.blocks] == ["accuracy", "accuracy drop"]
    cells, result = grid(table), records.evaluation(0)
    share = dict(zip(result.by("severity").names, result.by("severity").accuracy, strict=True))
    assert cells["resnet18.a1_in1k", "0.5"] == f"{share['0.5']:.2f}"
    assert grid(table, 1)["resnet18.a1_in1k", "1"] == f"{share['0'] - share['1'] + 0.0:.2f}"
    failed = grid(one_table(records, "cns-bench 3"))
    assert sum(float(failed["resnet50.a1_in1k", at]) for at in ("0", "0.5", "1")) == pytest.approx(
        1, abs=0.02
    )
    by_shift = one_table(records, "cns-bench shifts")
    assert [block.header for block in by_shift.blocks][1] == ("scale 0.5", "fog", "snow", "Avg")


def test_label_shift_is_laid_out_by_correction_and_by_alpha(tmp_path):
    of = metadata(4, ("Product", "Real World"), 40, shared=False)
    tasks = {
        text: made_task(text, of)
        for text in (f"label-shift@code source=Product target='Real World' alpha={a}" for a in ("none", 1))
    }
    skills = {"erm": (0.5, 0.5), "rs+dann": (0.6, 0.6), "rw+erm": (0.7, 0.7)}
    records = synthetic(
        tmp_path, tasks=tasks, methods=skills, trials=1, rules=("last",), dataset="office_home"
    )
    table = one_table(records, "rlsbench 5")
    assert [block.part for block in table.blocks] == ["None", "RW", "RS"]
    assert [block.header[1] for block in table.blocks] == ["Source", "Source", "DANN"]
    assert table.blocks[0].body[0][0] == "Officehome"
    pair = one_table(records, "rlsbench 7")
    assert pair.blocks[0].header == ("Product to Real", "Alpha = None", "Alpha = 1.0", "Avg")


def test_csv_has_a_line_a_number_and_every_format_is_written(real, tmp_path, capsys):
    made = report(real, tables=["nico++ 2"])
    lines = list(csv.DictReader(io.StringIO(made.to_csv())))
    line = next(line for line in lines if (line["row"], line["column"]) == ("IRM", "Wi"))
    assert line["printed"] == "71.52"
    assert float(line["value"]) > 0
    assert "| Deepall |" in made.to_markdown()
    folder = str(real.folders[0])
    assert main(["report", folder, "--as", "nico++ 2", "--as", "nico++ 4"]) == 0
    text = capsys.readouterr().out
    assert "nico++ 2: Classic DG with ResNet-50" in text
    assert "nico++ 4: Spread of test accuracy" in text
    assert main(["report", folder, "--as", "nico++ 2", "--out", str(tmp_path / "page.html")]) == 0


def test_a_table_that_does_not_exist_or_fit_is_refused(real):
    with pytest.raises(NotFoundError, match="unknown table of a paper 'nico 2'"):
        report(real, tables=["nico 2"])
    with pytest.raises(InputError, match=r"sma 4 is a table of domain adaptation.* are of domain general"):
        report(real, tables=["sma 4"])
    with pytest.raises(InputError, match="needs results on flexible-dg"):
        report(real, tables=["nico++ 3"])


def test_every_layout_is_of_a_published_table():
    tables = {(row["paper"], row["table"]) for row in published()}
    mine = {(layout.paper, number) for layout in LAYOUTS for number in layout.tables}
    assert mine - tables == {("cns-bench", "shifts")}


@pytest.mark.parametrize(
    ("axis", "ours", "printed", "same"),
    [
        ("method", "group-dro-domains", "GroupDRO", True),
        ("method", "coral", "MMD", False),
        ("model", "ViT-B-32/openai", "clip_vit_base_patch32_224", True),
        ("dataset", "office_home", "Officehome", True),
        ("dataset", "retiring_adult", "Retiring Adults", True),
        ("figure", "location_38", "L38", True),
        ("figure", "0.5", "0", False),
        ("weights", "timm:resnet50.tv_in1k", "ResNet-50, Supervised", True),
        ("tests", "sand, dim", "test S, Wi", False),
        ("pair", "Product to Clipart", "Product to ClipArt", True),
    ],
)
def test_names_of_papers_are_recognised(axis, ours, printed, same):
    assert is_named(axis, ours, printed) is same
