"""`shiftdata new`: from somebody's data to a recipe that builds."""

from __future__ import annotations

import importlib.util
import os
import shlex
import sys
from pathlib import Path
from typing import Any

import click

from builders.albums.folder import slug
from builders.albums.table_file import ENDINGS
from builders.starting.draft import Draft, Missing, quoted
from builders.starting.fitting import Written, write
from builders.starting.owner import NEEDED, Owner, ask_owner
from builders.starting.pictures import look_at_pictures
from builders.starting.shifts import MADE
from builders.starting.tables import look_at_table
from shiftdata.cli.verbs import verb
from shiftdata.errors import InputError
from shiftdata.files import write_text

PARTS = ("label", "text", "domain", "origin")


@verb("""
    examples:
      shiftdata new photos                     photos/<domain>/<class>/<picture>, in either order
      shiftdata new birds --weather            birds/<class>/<picture>, in snow, rain, fog, ...
      shiftdata new reviews.csv --domain language
      shiftdata new patients.parquet --label outcome --domain clinic

    It asks for the licence and the like; in a script, give --license, --attribution and --creator.
""")
@click.argument("path", type=Path, help="A folder of pictures, or a CSV, TSV or Parquet file.")
@click.option("--stylize", "shift", flag_value="stylize", help="Paint pictures in 20 styles.")
@click.option("--weather", "shift", flag_value="weather", help="Snow, rain, fog, ... step by step.")
@click.option("--corrupt", "shift", flag_value="corrupt", help="Noise, blur, ... in 5 severities.")
@click.option("--layout", metavar="LEVEL,...", help="What folders are, such as domain,label or -,label.")
@click.option("--size", type=click.IntRange(min=8), metavar="PIXELS", help="The side of pictures.")
@click.option("--label", metavar="COLUMN", help="Of a table: what is to be predicted.")
@click.option("--domain", metavar="COLUMN", help="Of a table: what shifts.")
@click.option("--text", metavar="COLUMN", help="Of a table: the text.")
@click.option("--origin", metavar="COLUMN", help="Of a table: what rows come from, such as an author.")
@click.option("--encoding", metavar="NAME", help="Of a CSV file, if it is not in UTF-8.")
@click.option("--name", metavar="NAME", help="Of the dataset. [default: as the folder or file]")
@click.option("--license", metavar="SPDX", help="Of the content, such as CC-BY-4.0.")
@click.option("--attribution", metavar="TEXT", help="Whom to credit for the content.")
@click.option("--creator", multiple=True, metavar="NAME", help="Who makes the dataset; may be repeated.")
@click.option("--out", type=Path, metavar="FILE", help="The recipe. [default: <name>.py next to the data]")
@click.option("--force", is_flag=True, help="Overwrite the recipe.")
def command(path: Path, name: str | None, out: Path | None, force: bool, **options: Any) -> None:
    """Look at your data, and write a recipe for it.

    The recipe is a short file for you to read and change; `build` makes the dataset from it.
    """
    if not path.exists():
        raise InputError(f"there is no {path}: give a folder of pictures or a table ({', '.join(ENDINGS)})")
    path = Path(os.path.relpath(path)) if not path.is_absolute() else path
    name = name or _name(path)
    out = out or path.resolve().parent / f"{name}.py"
    _check_out(out, name, force)
    draft, owner = _drafted(path, name, out, options)
    written = write(draft, owner, name, out)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_text(out, written.text)
    _print(written, out)


def _name(path: Path) -> str:
    """A name for the dataset; a recipe with the name of a Python module would hide it."""
    name = slug(path.resolve().stem if path.is_file() else path.resolve().name, 40).replace("-", "_")
    return f"my_{name}" if _is_module(name) else name


def _is_module(name: str) -> bool:
    """Return True if Python has another module of that name."""
    spec = importlib.util.find_spec(name)
    return spec is not None and spec.origin is not None and Path(spec.origin).parent != Path.cwd()


def _check_out(out: Path, name: str, force: bool) -> None:
    if out.suffix != ".py":
        raise InputError(f"a recipe's file ends in .py, got --out {out}")
    if out.exists() and not force:
        raise InputError(f"{out} exists: give another --name or --out, or --force to overwrite it")
    if out.parent.resolve() == Path.cwd() and _is_module(out.stem):
        raise InputError(
            f"{out.name} would hide the Python module {out.stem} from every program that is started here: "
            f"give another --name than {name}, or --out"
        )


def _drafted(path: Path, name: str, out: Path, options: dict[str, Any]) -> tuple[Draft, Owner]:
    """Look, ask for what is missing where there is a terminal, and look again."""
    draft = _look(path, name, out, options)
    for line in draft.seen:
        print(line)
    if not sys.stdin.isatty():
        _check_nothing_missing(draft, options)
    while isinstance(draft, Missing):
        options |= _asked(draft)
        before, draft = draft, _look(path, name, out, options)
        print("\n".join(line for line in draft.seen if line not in before.seen))
    return draft, ask_owner(options)


def _asked(missing: Missing) -> dict[str, str]:
    """The answers to what is missing: one of the shifts, or a column each."""
    if missing.columns:
        return {
            part: click.prompt(f"{meaning[0].upper()}{meaning[1:]}", err=True)
            for part, (meaning, _) in missing.columns.items()
        }
    for name, about in MADE.items():
        click.echo(f"{name}: {about}", err=True)
    return {"shift": click.prompt("What shall shift", type=click.Choice(list(MADE)), err=True)}


def _check_nothing_missing(draft: Draft | Missing, options: dict[str, Any]) -> None:
    """Name all missing flags in one error, each with an example."""
    columns = draft.columns if isinstance(draft, Missing) else {}
    lines = ["give what only you know, as there is no terminal to ask on:"]
    if isinstance(draft, Missing) and not columns:
        lines += ["  what is to shift, as the pictures have no domains; one of"]
        lines += [f"    --{name}: {about}" for name, about in MADE.items()]
    needed = {**columns} | {flag: question for flag, question in NEEDED.items() if not options[flag]}
    lines += [f"  --{flag} {shlex.quote(example)}: {meaning}" for flag, (meaning, example) in needed.items()]
    if len(lines) > 1:
        raise InputError("\n".join(lines))


def _look(path: Path, name: str, out: Path, options: dict[str, Any]) -> Draft | Missing:
    code = _code(path.resolve(), out.resolve().parent)
    if path.is_dir():
        layout = options["layout"].split(",") if options["layout"] else None
        return look_at_pictures(path, code, name, layout=layout, shift=options["shift"], size=options["size"])
    if options["shift"]:
        raise InputError(f"--{options['shift']} is for pictures, and {path} is a file")
    parts = {part: options[part] for part in PARTS}
    return look_at_table(path, code, parts=parts, encoding=options["encoding"])


def _code(data: Path, folder: Path) -> str:
    """The path of the data as a recipe writes it: relative to its own folder where the data is below that."""
    if data.is_relative_to(folder) and data != folder:
        return f"HERE / {quoted(data.relative_to(folder).as_posix())}"
    return f"Path({quoted(data.as_posix())})"


def _print(written: Written, out: Path) -> None:
    """Print where the recipe is, what it lacks and why, and the commands that come next."""
    recipe = shlex.quote(os.path.relpath(out))
    folder = f"build/shift/{written.recipe.name}"
    for line in written.warnings:
        print(line)
    for line in written.left_out:
        print(f"canonical split left out: {line}")
    rows = f"{written.rows:,} examples in the base {written.recipe.default_base!r}"
    print(f"\nwrote {recipe} ({rows}): read it, change what does not suit, then\n")
    print(f"  shiftdata build {recipe}")
    print(f"  shiftdata check {folder} --recipe {recipe}")
    for protocol in written.recipe.protocols[:1]:
        gaps = " --on-empty report" if written.recipe.on_empty == "report" else ""
        print(f"  shiftdata task {folder} {shlex.join(shlex.split(protocol.words()))}{gaps}")
        print(f"\nA calibration for its card: shiftdata calibrate {folder} --recipe {recipe}")
