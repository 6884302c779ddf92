"""Write a recipe that its data can carry: bases and canonical splits are tried before they are written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from builders.make import assign
from builders.make.canonical import check_planned, planned, planned_splits
from builders.make.equal import listed
from builders.recipe import Base, Recipe
from builders.sample import Item
from builders.starting.draft import INDENT, WIDTH, Candidate, Draft, quoted, tuple_of, wrapped
from builders.starting.owner import Owner
from shiftdata.data.metadata import Metadata
from shiftdata.errors import InputError
from shiftdata.evaluation.protocols import Protocol

MOST_MADE = 12_000  # examples of a base that is made at first: some minutes of work
PER_GROUP = (100, 50, 40, 20, 10, 5, 4)
VIRTUAL = (12, 8, 4, 1)
EMPTY: Mapping[str, str] = {}
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
    """The recipe of a draft, with those bases and canonical splits that its data can carry."""
    every = [_base(draft, None)]
    plain = _recipe(_text(draft, owner, name, every, ()), path)
    content = listed(plain.album)
    items = content.items
    assign.check_items(plain, items)
    fold_of = assign.folds(items)
    assign.check_splits(plain, fold_of)
    bases = _bases(draft, items, fold_of) or every
    tried = replace(plain, bases=tuple(bases), default_base=bases[-1].name)

    rows = planned(tried, items, fold_of)
    left_out: list[str] = []
    splits: list[str] = []
    more = dict[str, str]()
    for candidate in draft.shift.candidates:
        fitting, failed = _fitting(candidate, tried, path, rows)
        if failed and candidate.gaps:
            kept, lacking = _fitting(candidate, replace(tried, on_empty="report"), path, rows)
            if len(kept) > len(fitting):
                fitting, failed = kept, lacking
                more["on_empty"] = '"report",  # a split may lack rows of some groups'
        splits += _as_code(candidate, fitting)
        left_out += failed
    for virtual in (None, *VIRTUAL):
        if virtual is not None:
            more["virtual"] = f"{virtual},  # so many of them as configs of the card; all have a key file"
        text = _text(draft, owner, name, bases, splits, more)
        recipe = replace(_recipe(text, path), album=plain.album)  # which has read its files
        try:
            check_planned(recipe, rows)
            break
        except InputError:
            if virtual == VIRTUAL[-1]:
                raise
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
    name, one = ("mini", f"{per_group} items a class") if per_group else ("all", "Every item")
    one = one.replace("item", draft.what.split()[1].removesuffix("s"))
    made = f", in every {draft.shift.nuisance}" if draft.shift.made else ""
    return Base(name=name, summary=f"{one}{made}.", per_group=per_group)


def _bases(draft: Draft, items: Sequence[Item], fold_of: dict[str, int]) -> list[Base]:
    """Untouched content beside what is made of it; of much content only a part, or it would take hours."""
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
            known = str(error).startswith(protocol.id)
            failed.append(str(error) if known else f"{protocol.words()}: {error}")
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
    line = f"*({candidate.code.format('one')} for one in {among})"
    return [line] if len(line) + 9 <= WIDTH else [candidate.code.format(quoted(name)) for name in fitting]


def _text(
    draft: Draft,
    owner: Owner,
    name: str,
    bases: Sequence[Base],
    splits: Sequence[str],
    more: Mapping[str, str] = EMPTY,
) -> str:
    code = "".join(f"{line}\n" for line in _fields(draft, owner, name, bases, splits, more))
    here = ["HERE = Path(__file__).parent"] if "HERE" in draft.arguments[0] else []
    constants = "\n".join([*here, *draft.constants, *draft.shift.constants])
    return (
        f"# All that determines the dataset, begun by `builders new`; docs/own_data.md explains it.\n"
        f"{_imports(draft, code)}\n\n{constants}\n\nRECIPE = Recipe(\n{code})\n"
    )


def _imports(draft: Draft, code: str) -> str:
    modules: dict[str, list[str]] = {"builders.recipe": ["Base", "Recipe"]}
    for one in (*draft.imports, *draft.shift.imports):
        module, named = one.split()
        modules.setdefault(module, []).append(named)
    lines = [f"from {module} import {', '.join(_sorted(modules[module]))}" for module in sorted(modules)]
    return "\n".join(["from pathlib import Path", "", *lines, *filter(None, [_protocol_imports(code)])])


def _fields(
    draft: Draft,
    owner: Owner,
    name: str,
    bases: Sequence[Base],
    splits: Sequence[str],
    more: Mapping[str, str],
) -> Iterator[str]:
    """The lines of the recipe's fields."""
    yield f"    name={quoted(name)},"
    yield f"    family={quoted(draft.shift.family)},"
    yield '    version="1.0.0",  # raise it when the content changes, or code of your own'
    yield f"    released={quoted(date.today().isoformat())},"
    yield wrapped("creators=", owner.creators, ",", INDENT)
    yield f"    title={quoted(owner.title)},"
    yield "    # Say what the examples show, and where they come from."
    yield f"    summary={quoted(f'{draft.what}{draft.shift.about}.')},"
    yield f"    citation={quoted(owner.citation)},"
    yield f"    album={draft.album}("
    for argument in draft.arguments:
        yield f"        {argument},"
    yield f"        license={quoted(owner.license)},"
    yield f"        attribution={quoted(owner.attribution)},"
    yield "    ),"
    yield f"    nuisance={quoted(draft.shift.nuisance)},"
    if draft.prepare:
        yield from (f"    {line}" for line in draft.prepare)
    yield f"    shift={draft.shift.code},"
    yield f"    encoding={draft.encoding},"
    yield from _tuple("bases", [_base_code(base) for base in bases])
    yield f"    default_base={quoted(bases[-1].name)},"
    if splits:
        yield "    # Canonical splits, the most important first; docs/protocols.md has more."
        yield from _tuple("protocols", splits)
        for field, value in sorted(more.items()):
            yield f"    {field}={value}"


def _tuple(field: str, entries: Sequence[str]) -> list[str]:
    if len(entries) == 1 and len(line := f"{INDENT}{field}=({entries[0]},),") <= WIDTH:
        return [line]
    return [f"{INDENT}{field}=(", *(f"{INDENT}{INDENT}{entry}," for entry in entries), f"{INDENT}),"]


def _base_code(base: Base) -> str:
    more = ', layer="content"' if base.layer == "content" else ""
    more += f", per_group={base.per_group}" if base.per_group else ""
    return f"Base(name={quoted(base.name)}, summary={quoted(base.summary)}{more})"
