"""`shiftdata labels`: pictures to Label Studio, its labels back, agreement of people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from shiftdata.cli.verbs import Verb, verb
from shiftdata.errors import InputError


class Labels(Verb, click.Group):
    """A verb of three steps."""


command = Labels(
    "labels",
    help="Labels by people: pictures to Label Studio, its labels back, agreement.",
    epilog="""
    examples:
      shiftdata labels export cns_emoji --labels keep,partly,drop --each 5 --out project
      shiftdata labels import project-1-at-2026-11-26.json labels.csv
      shiftdata labels agreement labels.csv

    Labels are a CSV, key,label,who,when: a table that was filled in with a spreadsheet will do as well.
    """,
)


@verb("""
    examples:
      shiftdata labels export cns_emoji --labels keep,partly,drop --out project
      shiftdata labels export cns_emoji 'severity>=1' shift=graffiti --labels keep,drop --each 5 --out project

    Make a project in Label Studio, paste config.xml as its labelling interface, and import tasks.json.
""")
@click.argument("dataset", help="A dataset of pictures.")
@click.argument("conditions", nargs=-1, metavar="[CONDITION]...", help="As of `fetch --select`.")
@click.option("--labels", required=True, metavar="NAMES", help="The labels to choose from, with commas.")
@click.option("--out", type=Path, required=True, metavar="FOLDER", help="Gets tasks.json and config.xml.")
@click.option("--base", metavar="NAME", help="The base of the dataset. [default: its default]")
@click.option("--each", type=click.IntRange(1), metavar="N", help="Examples a group. [default: all]")
@click.option("--seed", type=int, default=0, metavar="N", help="Another order, and other examples of --each.")
def export_command(dataset: str, conditions: tuple[str, ...], labels: str, out: Path, **options: Any) -> None:
    """Write pictures of a dataset as tasks for Label Studio."""
    from shiftdata.evaluation.label_studio import CONFIG, TASKS, tasks_of, write_project

    tasks = tasks_of(dataset, conditions, **options)
    write_project(out, tasks, _names(labels))
    print(f"{out / TASKS}: {len(tasks):,} pictures; {out / CONFIG}: the labelling interface")


@verb("""
    examples:
      shiftdata labels import project-1-at-2026-11-26.json labels.csv
""")
@click.argument("export", type=Path, help="What Label Studio exported as JSON.")
@click.argument("out", type=Path, metavar="LABELS", help="The table; labels that it has stay.")
def import_command(export: Path, out: Path) -> None:
    """Add the labels of a Label Studio project to a table of labels."""
    from shiftdata.evaluation.label_studio import read_export
    from shiftdata.evaluation.labels import read_labels, write_labels

    labels = read_export(export)
    present = read_labels(out) if out.is_file() else []
    # A row without label and person names a picture that is to be labelled.
    rows = dict.fromkeys(row for row in present if row.label or row.who) | dict.fromkeys(labels)
    labelled = {row.key for row in rows}
    rows |= dict.fromkeys(row for row in present if row.key not in labelled)
    write_labels(out, rows)
    print(f"{out}: {len(labels):,} labels of {export}")


@verb("""
    examples:
      shiftdata labels agreement labels.csv                              everybody in one table
      shiftdata labels agreement anna.csv ben.csv
""")
@click.argument("files", nargs=-1, type=Path, required=True, metavar="LABELS...", help="Tables.")
@click.option("--labels", metavar="NAMES", help="The labels, with commas. [default: those of the tables]")
def agreement_command(files: tuple[Path, ...], labels: str | None) -> None:
    """Print how far every two people agree, by Cohen's kappa."""
    from shiftdata.evaluation.labels import agreements, latest, read_labels

    allowed = _names(labels) if labels else ()
    tables = [(path.name, latest(read_labels(path, allowed))) for path in files]
    names = allowed or sorted({label for _, of in tables for mine in of.values() for label in mine.values()})
    pairs = list(agreements(tables, names))
    if not pairs:
        raise InputError(f"{files[0]} has the labels of one person: give another table too")
    print("\n\n".join(map(str, pairs)))


def _names(text: str) -> list[str]:
    names = [name.strip().lower() for name in text.split(",") if name.strip()]
    if len(set(names)) < max(2, len(names)):
        raise click.UsageError(f"--labels {text!r}: give two or more different labels, as in keep,partly")
    return names


command.add_command(export_command, "export")
command.add_command(import_command, "import")
command.add_command(agreement_command, "agreement")
