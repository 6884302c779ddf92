"""The common parts of verbs: lazy import, help, errors, progress, tokens."""

from __future__ import annotations

import inspect
import io
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from shiftdata.errors import InputError, MissingExtraError, ShiftdataError
from shiftdata.extras import EXTRAS, install_hint
from shiftdata.progress import progress as progress

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from shiftdata.data.executors.base import Rank

#: The messages of Ctrl-C.
STARTS_OVER = "interrupted: the same command starts again from the beginning"
GOES_ON = "interrupted: run the same command again, and it goes on where it stopped"


class Verb(click.Command):
    """One verb: its epilog is printed as it is written, and Ctrl-C prints `interrupted`."""

    def __init__(self, *args: Any, interrupted: str = STARTS_OVER, **options: Any) -> None:
        super().__init__(*args, **options)
        self.interrupted = interrupted

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self.epilog:
            formatter.write(f"\n{inspect.cleandoc(self.epilog)}\n")

    def invoke(self, ctx: click.Context) -> int:
        try:
            return super().invoke(ctx) or 0
        except BaseException as error:
            if not _interrupted(error):
                raise
            click.echo(self.interrupted, err=True)
            return 130


@dataclass(frozen=True)
class Table:
    """The verbs of a package: under each role a summary of every verb, whose module assigns `command`.

    A package adds verbs by an entry point of the group `shiftdata.verbs` that names its table. `extra` is the
    extra of shiftdata that they need.
    """

    package: str
    roles: Mapping[str, Mapping[str, str]]
    extra: str = ""

    @property
    def summaries(self) -> dict[str, str]:
        return {name: summary for verbs in self.roles.values() for name, summary in verbs.items()}

    def load(self, name: str) -> click.Command:
        """Import a verb, or say which extra installs what it needs."""
        modules = (module for module, extra in EXTRAS.items() if extra == self.extra)
        if missing := [module for module in modules if find_spec(module) is None]:
            hint = install_hint(missing[0])
            raise MissingExtraError(f"`shiftdata {name}` needs {', '.join(missing)}: {hint}")
        command: click.Command = import_module(f"{self.package}.{name.replace('-', '_')}").command
        return command


class Verbs(Verb, click.Group):
    """The verbs of a table and of those that other packages add, each imported when it is used."""

    def __init__(self, table: Table, points: str = "", **options: Any) -> None:
        settings = {"show_default": True, "max_content_width": 100, "help_option_names": ["-h", "--help"]}
        super().__init__(context_settings=settings, **options)
        self.table, self.points = table, points

    @cached_property
    def added(self) -> list[Table]:
        """The tables of other packages; one that cannot be imported is named and left out."""
        tables = []
        for point in _entry_points(self.points) if self.points else ():
            try:
                table = point.load()
                if not isinstance(table, Table):
                    raise TypeError(f"it is not a Table, but a {type(table).__name__}")
                tables.append(table)
            except Exception as error:  # anybody's package
                click.echo(f"warning: the verbs of {point.value} are left out: {error}", err=True)
        return tables

    def find(self, name: str) -> Table | None:
        """Return the table that has a verb; no table hides a verb of an earlier one."""
        if name in self.table.summaries:
            return self.table
        return next((table for table in self.added if name in table.summaries), None)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for verbs in self.by_role().values() for name in verbs]

    def by_role(self) -> dict[str, dict[str, str]]:
        """Return the summaries of all tables by role, those of other packages first within each."""
        tables = [*self.added, self.table]
        roles = dict.fromkeys(role for table in reversed(tables) for role in table.roles)
        return {
            role: {
                name: text
                for table in tables
                for name, text in table.roles.get(role, {}).items()
                if self.find(name) is table
            }
            for role in roles
        }

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        table = self.find(cmd_name)
        return click.Command(cmd_name, short_help=table.summaries[cmd_name]) if table else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        roles = self.by_role()
        widest = max(len(name) for verbs in roles.values() for name in verbs)
        for role, verbs in roles.items():
            with formatter.section(role):
                formatter.write_dl([(name.ljust(widest), text) for name, text in verbs.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        table = self.find(args[0])
        if table is None:
            names = self.list_commands(ctx)
            self.commands = {name: click.Command(name) for name in names}  # click proposes similar ones
            return super().resolve_command(ctx, args)
        return args[0], table.load(args[0]), args[1:]

    def invoke(self, ctx: click.Context) -> int:
        """Run a verb, and turn errors into one line and a status."""
        try:
            status = super().invoke(ctx)
            sys.stdout.flush()
            return status
        except BrokenPipeError:  # the reader, such as `head`, has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 141  # as a shell says of what a closed pipe ended
        except (ShiftdataError, OSError) as error:
            click.echo(f"error: {_reason(error)}", err=True)
            return 1

    def run(self, arguments: Sequence[str] | None) -> int:
        """Run a command line (None: that of the process), and return its exit status."""
        if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":  # of Windows
            sys.stdout.reconfigure(errors="backslashreplace")
        try:
            return int(self.main(None if arguments is None else list(arguments), standalone_mode=False))
        except click.Abort:  # a second Ctrl-C
            return 130
        except click.ClickException as error:
            error.show()
            return error.exit_code


def _entry_points(group: str) -> Iterable[EntryPoint]:
    """Return the installed ones, and in a checkout those that it declares, whenever it was installed."""
    import tomllib  # noqa: TID251  # of the checkout itself, which nobody else wrote
    from importlib.metadata import EntryPoint, entry_points

    points = {point.name: point for point in entry_points(group=group)}
    project = Path(__file__).parents[2] / "pyproject.toml"
    if project.is_file():
        declared = tomllib.loads(project.read_text(encoding="utf-8")).get("project", {})
        for name, value in declared.get("entry-points", {}).get(group, {}).items():
            points[name] = EntryPoint(name, value, group)
    return points.values()


def _interrupted(error: BaseException | None) -> bool:
    """Return True for Ctrl-C, and for an error that it led to while blocks and generators were closed."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def _reason(error: ShiftdataError | OSError) -> str:
    """Return an error in words; of the system's errors the path first, without the number."""
    if isinstance(error, ShiftdataError) or not (error.filename and error.strerror):
        return str(error)
    return f"{error.filename}: {error.strerror}. Check the path, and your rights to it"


def verb(examples: str, interrupted: str = STARTS_OVER) -> Callable[[Callable[..., int | None]], Verb]:
    """Make a verb of a typed function; `examples` end its help."""
    return click.command(cls=Verb, epilog=examples, interrupted=interrupted)


dataset_argument = click.argument(
    "dataset", help="A name such as sma_glyphs, owner/name, a folder, or a URL (https://, s3://, hf://)."
)
quiet_option = click.option("--quiet", is_flag=True, help="Show no progress bar.")
device_option = click.option("--device", default="cpu", help="cpu, cuda, cuda:1, mps.")


def format_option(*formats: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add --format, the parameter `form`; the default is the first."""
    choice = click.Choice(formats)
    return click.option("--format", "form", type=choice, default=formats[0], help="How to print.")


def asked_rank(rank: int | None, world: int | None, slurm: bool) -> Rank | None:
    """Return the rank of --rank and --world, or with --slurm that of Slurm; None without them."""
    from shiftdata.data.executors.base import Rank

    if slurm:
        if rank is not None or world is not None:
            raise InputError("--slurm gives rank and world: leave --rank and --world out")
        slurm_rank, variables = Rank.of_slurm()
        print(f"{slurm_rank} ({variables})", file=sys.stderr)
        return slurm_rank
    if (rank is None) != (world is None):
        raise InputError("--rank and --world go together, as in --rank 0 --world 8")
    return None if rank is None or world is None else Rank(rank, world)


def begin_bar(*, quiet: bool = False) -> Callable[[str, int], Callable[[], object]]:
    """Return a function that makes a progress bar of a name and a number of steps, and returns its step."""

    def begin(name: str, steps: int) -> Callable[[], object]:
        bar = progress(name, steps, "file", quiet=quiet)

        def step() -> None:
            bar.update()
            if bar.n >= steps:
                bar.close()

        return step

    return begin


def check_token(text: str, where: str) -> str:
    """Return a token, which must be one word, without the spaces around it."""
    if len(text.split()) != 1:
        raise InputError(f"{where} must be one word, the token, such as `openssl rand -hex 24` prints")
    return text.strip()


def read_token(path: Path) -> str:
    """Read the token in a file that contains nothing else."""
    if not path.is_file():
        raise InputError(f"--token-file {path} is not a file: name the one that contains the token")
    return check_token(path.read_text(encoding="utf-8"), f"--token-file {path}")
