"""`shiftdata submit`: predictions and a method card as one file for a leaderboard."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from shiftdata.cli.verbs import verb
from shiftdata.data.metadata import Metadata, read_metadata
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
    rule: str | None,
    data: Path | None,
    out: Path | None,
    card_template: bool,
    **choices: str | None,
) -> None:
    """Write predictions by key and a method card as one file, after checking them."""
    from shiftdata.bench import Records
    from shiftdata.bench.leaderboard.board import bracketed, cell
    from shiftdata.bench.leaderboard.judging import judge
    from shiftdata.bench.leaderboard.submission import Submission, template
    from shiftdata.bench.leaderboard.submitting import dataset_of, from_predictions, from_records
    from shiftdata.bench.reporting.scores import title_of

    def metadata_of(name: str, base: str | None) -> Metadata:
        return read_metadata(name if data is None else data / name, base)

    if card_template:
        print(template(), end="")
        return
    if out is None:
        raise InputError("give --out FILE.parquet, the file to write")
    if predictions:
        if dataset is None or card is None:
            raise InputError("--predictions go with --dataset and --card: `--card-template` prints a card")
        metadata = metadata_of(dataset, base)
        submission = from_predictions(metadata, shlex.join(words), predictions, card, unlabelled)
    else:
        if rule is None or not words:
            raise InputError("give the folder of a sweep and --rule, or --dataset, --predictions and --card")
        given = {name: value for name, value in (choices | {"dataset": dataset}).items() if value}
        records = Records.read(*words).where(**given)
        metadata = metadata_of(*dataset_of(records))
        submission = from_records(records, rule, metadata, card)
    with whole_file(out) as temporary:  # judged before it appears: a refused file is not written
        submission.write(temporary)
        entries = judge(Submission.read(temporary), out.name, metadata)
    for entry in entries:
        figures = ((name, score) for name, score in entry.scores.items() if "@" not in name)
        scores = ", ".join(f"{title_of(name)} {bracketed(cell(name, score))}" for name, score in figures)
        print(f"{entry.card.method} on {entry.task}, {entry.set}, {len(entry.seeds)} seeds")
        print(f"    {scores or 'its labels are hidden: their owner judges the file'}")
    print(f"{out}: {submission.rows.num_rows:,} rows")
