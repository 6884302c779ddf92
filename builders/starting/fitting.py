"""Write a recipe that its data can carry: bases and canonical splits are tried before they are written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from builders.datasheet import ASKED, TODO
from builders.items import ItemTable
from builders.make import assign
from builders.make.canonical import check_planned, planned, planned_splits
from builders.make.equal import listed
from builders.recipe import Base, Recipe
from builders.starting.draft import INDENT, WIDTH, Candidate, Draft, quoted, tuple_of, wrapped
from builders.starting.owner import Owner
from shiftdata.data.metadata import Metadata
from shiftdata.errors import InputError
from shiftdata.evaluation.protocols import Protocol

MOST_MADE = 12_000  # examples of a base that is made at first: some minutes of work
PER_GROUP = (100, 50, 40, 20, 10, 5, 4)
PROTOCOLS = ("GroupFairness", "LabelShift", "LeaveOneDomainOut", "UDA")


@dataclass(frozen=True, kw_only=True)
class Written:
    """A recipe's text, the rows of its default base, what to know of them, and the splits it lacks."""

    text: str
    rows: int
    recipe: Recipe
    left_out: Sequence[str]
    warnings: Sequence[str] = ()


def write(draft: Draft, owner: Owner, name: str, path: Path) -> Written:
    """Write the recipe of a draft, with those bases and canonical splits that its data can carry."""
    every = [_base(draft, None)]
    plain = _recipe(_text(draft, owner, name, every, (), ""), path)
    content = listed(plain.album)
    items = content.items
    assign.check_items(plain, items)
    fold_of = assign.folds(items)
    assign.check_splits(plain, items, fold_of)
    bases = _bases(draft, items, fold_of) or every
    tried = replace(plain, bases=tuple(bases), default_base=bases[-1].name)

    rows = planned(tried, items, fold_of)
    left_out: list[str] = []
    splits: list[str] = []
    gaps = ""
    for candidate in draft.shift.candidates:
        fitting, failed = _fitting(candidate, tried, path, rows)
        if failed and candidate.gaps:
            with_gaps, lacking = _fitting(candidate, replace(tried, on_empty="report"), path, rows)
            if len(with_gaps) > len(fitting):
                fitting, failed = with_gaps, lacking
                gaps = 'on_empty="report",  # a split may lack rows of some groups'
        splits += _as_code(candidate, fitting)
        left_out += failed
    text = _text(draft, owner, name, bases, splits, gaps)
    recipe = replace(_recipe(text, path), album=plain.album)  # which has read its files
    check_planned(recipe, rows)
    return Written(
        text=text, rows=len(rows), recipe=recipe, left_out=left_out, warnings=list(content.warnings())
    )


def _recipe(text: str, path: Path) -> Recipe:
    recipe = _run(text, path)["RECIPE"]
    if not isinstance(recipe, Recipe):
        raise TypeError(recipe)
    return recipe


def _run(text: str, path: Path) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "recipe", "__file__": str(path)}
    exec(compile(text, str(path), "exec"), names)
    return names


def _base(draft: Draft, per_group: int | None) -> Base:
    noun = draft.about.split()[1].removesuffix("s")
    name, summary = ("mini", f"{per_group} {noun}s a class") if per_group else ("all", f"Every {noun}")
    nuisance = f", in every {draft.shift.nuisance}" if draft.shift.made else ""
    return Base(name=name, summary=f"{summary}{nuisance}.", per_group=per_group)


def _bases(draft: Draft, items: ItemTable, fold_of: assign.Folds) -> list[Base]:
    """Return untouched content and what is made of it; of much content a part, or it would take hours."""
    if not draft.shift.made:
        return []
    content = Base(name="content", summary="Every untouched picture.", layer="content")
    whole = draft.items * draft.shift.per_item
    for per_group in PER_GROUP if whole > MOST_MADE else ():
        base = _base(draft, per_group)
        if per_group * draft.labels * draft.shift.per_item <= MOST_MADE or per_group == PER_GROUP[-1]:
            try:
                assign.pick(items, fold_of, base)
            except InputError:  # a class has fewer
                continue
            return [content, base]
    return [content, _base(draft, None)]


def _fitting(candidate: Candidate, recipe: Recipe, path: Path, rows: Metadata) -> tuple[list[str], list[str]]:
    """The names (or the candidate itself, as "") for which the data carries it, and why not the others."""
    fitting, failed = [], []
    for name in candidate.names or [""]:
        code = candidate.code.format(quoted(name)) if name else candidate.code
        protocol = _protocol(code, path)
        try:
            planned_splits(replace(recipe, protocols=(protocol,)), rows)
        except InputError as error:
            is_named = str(error).startswith(protocol.id)
            failed.append(str(error) if is_named else f"{protocol.words()}: {error}")
        else:
            fitting.append(name)
    return fitting, failed


def _protocol(code: str, path: Path) -> Protocol:
    protocol = _run(f"{_protocol_imports(code)}\nMADE = {code}\n", path)["MADE"]
    if not isinstance(protocol, Protocol):
        raise TypeError(protocol)
    return protocol


def _protocol_imports(code: str) -> str:
    names = [name for name in PROTOCOLS if f"{name}(" in code]
    lines = [f"from shiftdata.evaluation.protocols import {', '.join(_sorted(names))}"] if names else []
    if "Trajectories(" in code:
        lines.insert(0, "from shiftdata.evaluation.protocols import Continuous as Trajectories")
    return "\n".join(lines)


def _sorted(names: Sequence[str]) -> list[str]:
    return sorted(set(names), key=lambda name: (not name.isupper(), name))  # constants, then classes


def _as_code(candidate: Candidate, fitting: Sequence[str]) -> list[str]:
    if not candidate.names or not fitting:
        return [candidate.code] if fitting else []
    if len(fitting) == 1:
        return [candidate.code.format(quoted(fitting[0]))]
    whole = candidate.among and list(fitting) == list(candidate.names)
    among = candidate.among if whole else tuple_of(fitting)
    line = f"*({candidate.code.format('name')} for name in {among})"
    return [line] if len(line) + 9 <= WIDTH else [candidate.code.format(quoted(name)) for name in fitting]


def _text(
    draft: Draft, owner: Owner, name: str, bases: Sequence[Base], splits: Sequence[str], gaps: str
) -> str:
    code = "".join(f"    {line}\n" for line in _fields(draft, owner, name, bases, splits, gaps))
    here = ["HERE = Path(__file__).parent"] if "HERE" in draft.arguments[0] else []
    constants = "\n".join([*here, *draft.constants, *draft.shift.constants])
    return (
        f"# All that determines the dataset, begun by `shiftdata new`; docs/own_data.md explains it.\n"
        f"{_imports(draft, code)}\n\n{constants}\n\nRECIPE = Recipe(\n{code})\n"
    )


def _imports(draft: Draft, code: str) -> str:
    modules: dict[str, list[str]] = {
        "builders.datasheet": ["Datasheet"],
        "builders.recipe": ["Base", "Recipe"],
    }
    for line in (*draft.imports, *draft.shift.imports):
        module, imported = line.split()
        modules.setdefault(module, []).append(imported)
    lines = [f"from {module} import {', '.join(_sorted(modules[module]))}" for module in sorted(modules)]
    return "\n".join(["from pathlib import Path", "", *lines, *filter(None, [_protocol_imports(code)])])


def _fields(
    draft: Draft, owner: Owner, name: str, bases: Sequence[Base], splits: Sequence[str], gaps: str
) -> list[str]:
    """The lines of the recipe's fields."""
    title = name.replace("_", " ").title()
    citation = f"{', '.join(owner.creators)}. {title}. {date.today().year}."
    creators = wrapped("creators=", owner.creators, ",", INDENT).removeprefix(INDENT)
    protocols = ["# Canonical splits, the most important first; docs/protocols.md has more."]
    protocols += [*_tuple("protocols", splits), *filter(None, [gaps])]
    return [
        f"name={quoted(name)},",
        f"family={quoted(draft.shift.family)},",
        'version="1.0.0",  # raise it when the content changes, or code of your own',
        f"released={quoted(date.today().isoformat())},",
        creators,
        f"title={quoted(title)},",
        "# Say what the examples show, and where they come from.",
        f"summary={quoted(f'{draft.about}{draft.shift.about}.')},",
        f"citation={quoted(citation)},",
        f"album={draft.album}(",
        *(f"{INDENT}{argument}," for argument in draft.arguments),
        f"{INDENT}license={quoted(owner.license)},",
        f"{INDENT}attribution={quoted(owner.attribution)},",
        "),",
        f"nuisance={quoted(draft.shift.nuisance)},",
        *draft.prepare,
        f"shift={draft.shift.code},",
        f"encoding={draft.encoding},",
        *_tuple("bases", [_base_code(base) for base in bases]),
        f"default_base={quoted(bases[-1].name)},",
        *(protocols if splits else []),
        "# For venues; `check --venue` lists what is still to be answered.",
        "datasheet=Datasheet(",
        *(f"{INDENT}{name}={quoted(f'{TODO} {question}')}," for name, question in ASKED.items()),
        "),",
    ]


def _tuple(field: str, entries: Sequence[str]) -> list[str]:
    if len(entries) == 1 and len(line := f"{field}=({entries[0]},),") <= WIDTH - len(INDENT):
        return [line]
    return [f"{field}=(", *(f"{INDENT}{entry}," for entry in entries), "),"]


def _base_code(base: Base) -> str:
    more = ', layer="content"' if base.layer == "content" else ""
    more += f", per_group={base.per_group}" if base.per_group else ""
    return f"Base(name={quoted(base.name)}, summary={quoted(base.summary)}{more})"
