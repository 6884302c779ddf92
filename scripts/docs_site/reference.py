"""The reference: every public name from its docstring, every verb from its help."""

from __future__ import annotations

import contextlib
import inspect
import io
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from shiftdata.cli.app import APP, main

#: The modules whose names are public, and what each is for.
MODULES = {
    "shiftdata": "What `import shiftdata as sd` has.",
    "shiftdata.evaluation.protocols": "Rules that make tasks.",
    "shiftdata.evaluation.sampling": "Which rows a batch gets.",
    "shiftdata.evaluation.metrics": "Figures of arrays.",
    "shiftdata.evaluation.label_shift": "",
    "shiftdata.evaluation.meters": "How far apart two sets of rows are.",
    "shiftdata.baselines": "Reference methods, and methods of one's own.",
    "shiftdata.baselines.losses": "Formulas and sources of what `from shiftdata import losses` has.",
    "shiftdata.bench": "Sweeps, records, reports.",
    "shiftdata.bench.papers": "The papers' numbers.",
}
LONGEST = 78  # characters of a signature in one line


def write_reference(out: Path) -> None:
    """A page for each module, and one for the command line."""
    out.mkdir(parents=True)
    for number, (name, about) in enumerate(MODULES.items()):
        text = "\n\n".join(module_page(name, about))
        (out / f"{number}_{name.replace('.', '_')}.md").write_text(text + "\n", encoding="utf-8")
    (out / "command_shiftdata.md").write_text("\n\n".join(command_line()) + "\n", encoding="utf-8")


def module_page(name: str, about: str) -> Iterator[str]:
    module = import_module(name)
    yield f"# {name}"
    yield about or _markdown(inspect.getdoc(module) or "")
    for public in public_names(module):
        value = getattr(module, public)
        yield f"## {public}"
        if callable(value):
            yield _code(f"{public}{_signature(value)}")
            yield _markdown(inspect.getdoc(value) or "")
            if inspect.isclass(value):
                yield from _members(value)
        else:
            yield _code(f"{public} = {value!r:.300}")


def public_names(module: ModuleType) -> list[str]:
    """Return the names that a module exports: `__all__`, or all but modules and private names."""
    values = vars(module).items()
    names = [name for name, value in values if name[0] != "_" and not inspect.ismodule(value)]
    return sorted(getattr(module, "__all__", names), key=str.lower)


def _members(owner: type[Any]) -> Iterator[str]:
    """The methods and properties of a class that have a docstring, without those of other packages."""
    for name, value in inspect.getmembers(owner):
        home = next((base for base in owner.__mro__ if name in vars(base)), object)
        raw = vars(home).get(name)
        if name.startswith("_") or not home.__module__.startswith("shiftdata"):
            continue
        doc = inspect.getdoc(raw if isinstance(raw, property) else value)
        if doc and (callable(value) or isinstance(raw, property)):
            shown = "" if isinstance(raw, property) else _signature(value)
            yield f"### {owner.__name__}.{name}"
            yield _code(f"{name}{shown}")
            yield _markdown(doc)


def command_line() -> Iterator[str]:
    yield "# `shiftdata`"
    yield _code(_help(), "text")
    for verb in (name for verbs in APP.by_role().values() for name in verbs):
        yield f"## {verb}"
        yield _code(_help(verb), "text")


def _help(*words: str) -> str:
    stream = io.StringIO()
    with contextlib.redirect_stdout(stream):
        main([*words, "--help"])
    return stream.getvalue().rstrip()


def _signature(value: Any) -> str:
    """Return the signature; a long one has a line for each parameter."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return "(...)"
    if len(text := str(signature).replace("'", "")) <= LONGEST:
        return text
    words, kinds = [], set[Any]()
    for parameter in signature.parameters.values():
        if parameter.kind == parameter.KEYWORD_ONLY and not kinds & {
            parameter.KEYWORD_ONLY,
            parameter.VAR_POSITIONAL,
        }:
            words.append("*")
        kinds.add(parameter.kind)
        words.append(str(parameter).replace("'", ""))
    result = text.rpartition(") -> ")[2] if ") -> " in text else ""
    return "(\n    " + ",\n    ".join(words) + ",\n)" + (f" -> {result}" if result else "")


def _code(text: str, kind: str = "python") -> str:
    return f"```{kind}\n{text}\n```"


def _markdown(doc: str) -> str:
    """A docstring as Markdown: arguments as a list, examples as code."""
    doc = re.sub(r"((?:^ *(?:>>>|\.\.\.) .*\n?)(?:^(?! *$).*\n?)*)", _fenced, doc + "\n", flags=re.MULTILINE)
    head, args, rest = doc.partition("\nArgs:\n")
    if args:
        rest = re.sub(r"^    (\*{0,2}\w+): ", r"- `\1`: ", rest, flags=re.MULTILINE)
        rest = re.sub(r"\n {8,}", " ", rest)
        head += "\n\n"
    return (head + rest).replace("<", "&lt;").strip() if "```" not in doc else (head + rest).strip()


def _fenced(found: re.Match[str]) -> str:
    return f"\n```python\n{found[0].rstrip()}\n```\n"
