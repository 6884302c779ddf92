"""`shiftdata submit`: predictions and a method card as one file for a leaderboard."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Literal

import click

from shiftdata.cli.verbs import verb
from shiftdata.data.metadata import read_metadata
from shiftdata.errors import InputError
from shiftdata.files import whole_file


@verb("""
    examples:
      shiftdata submit --card-template > card.toml                 a card to fill in
      shiftdata submit --dataset sma_glyphs gf_k8_mu5 --predictions p.csv --card card.toml --out mine.parquet
      shiftdata submit --dataset sma_glyphs group-fairness k=8 mu=0.05 --predictions seed0.csv \\
          --predictions seed1.csv --card card.toml --out mine.parquet
      shiftdata submit --dataset dom_glyphs uda_sans_script --predictions target_test=t.csv \\
          --predictions source_test=s.csv --card card.toml --out mine.parquet
      shiftdata submit runs/fairness --method rwg --rule iid-worst --out rwg.parquet

    Predictions are files as `shiftdata evaluate` reads them; a second file of a set is its next seed. For a
    sweep, the rule chooses trial and steps, and the records fill the card, which --card overrides. The file
    is only written if it passes every check of `shiftdata leaderboard`.
""")
@click.argument(
    "words", nargs=-1, metavar="[FOLDER... | PROTOCOL...]", help="Folders of a sweep; with --dataset, a task."
)
@click.option("--dataset", metavar="NAME", help="The dataset of your predictions, or one of a sweep.")
@click.option("--base", metavar="NAME", help="One that `shiftdata info` lists. [default: the default base]")
@click.option("--predictions", multiple=True, metavar="[SET=]FILE", help="Repeatable: sets, and their seeds.")
@click.option("--unlabelled", default="", metavar="SET", help="A set that the method saw without labels.")
@click.option("--card", type=Path, metavar="FILE", help="The method card, in TOML.")
@click.option("--method", metavar="NAME", help="Of a sweep.")
@click.option("--variant", metavar="NAME", help="Of a sweep.")
@click.option("--backbone", metavar="NAME", help="Of a sweep.")
@click.option("--rule", metavar="NAME", help="Of a sweep: chooses trial and steps.")
@click.option("--m", default=3, help="How many of the worst groups iid-worst-m averages.")
@click.option("--ties", type=click.Choice(["earliest", "latest"]), default="earliest", help="Among equals.")
@click.option("--data", type=Path, metavar="FOLDER", help="Where the datasets are, by name.")
@click.option("--out", type=Path, metavar="FILE.parquet", help="The file to write.")
@click.option("--card-template", is_flag=True, help="Print a card to fill in.")
def command(
    words: tuple[str, ...],
    dataset: str | None,
    base: str | None,
    predictions: tuple[str, ...],
    unlabelled: str,
    card: Path | None,
    method: str | None,
    variant: str | None,
    backbone: str | None,
    rule: str | None,
    m: int,
    ties: Literal["earliest", "latest"],
    data: Path | None,
    out: Path | None,
    card_template: bool,
) -> None:
    """Write predictions by key and a method card as one file, after checking them."""
    from shiftdata.bench import Records
    from shiftdata.bench.leaderboard.board import cell
    from shiftdata.bench.leaderboard.card import template
    from shiftdata.bench.leaderboard.judging import Judge
    from shiftdata.bench.leaderboard.submission import Submission
    from shiftdata.bench.leaderboard.submitting import from_predictions, from_records

    if card_template:
        print(template(), end="")
        return
    if out is None:
        raise InputError("give --out FILE.parquet, the file to write")
    if predictions:
        if dataset is None or card is None:
            raise InputError("--predictions go with --dataset and --card: `--card-template` prints a card")
        metadata = read_metadata(dataset if data is None else data / dataset, base)
        made = from_predictions(metadata, shlex.join(words), predictions, card, unlabelled)
        judge = Judge(data, *([] if metadata.dataset is None else [metadata.dataset]))
    else:
        if rule is None or not words:
            raise InputError("give the folder of a sweep and --rule, or --dataset, --predictions and --card")
        given = {"method": method, "variant": variant, "backbone": backbone, "dataset": dataset}
        records = Records.read(*words).where(**{name: value for name, value in given.items() if value})
        made = from_records(records, rule, data=data, card=card, m=m, ties=ties)
        judge = Judge(data)
    with whole_file(out) as temporary:  # judged before it appears: a refused file is not written
        made.write(temporary)
        entries = judge.judge(Submission.read(temporary), out.name)
    for entry in entries:
        scores = ", ".join(f"{name} {cell(score)}" for name, score in entry.scores.items() if "@" not in name)
        print(f"{entry.card.method} on {entry.task}, {entry.set}, {len(entry.seeds)} seeds, {entry.badge}")
        print(f"    {scores}")
    print(f"{out}: {made.rows.num_rows:,} rows")
