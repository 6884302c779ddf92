"""Write the reference: every public name from its docstring by topic, every verb from its help."""

from __future__ import annotations

import contextlib
import inspect
import io
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from topics import COMMANDS, MODULES, TOPICS, Topic

from shiftdata.cli.app import APP, main

LONGEST = 78  # characters of a signature in one line


def write_reference(out: Path) -> None:
    """Write a page for each topic, and for each of the command line."""
    out.mkdir(parents=True)
    names = public() - {entry for topic in TOPICS for entry in _entries(topic)}
    verbs = {verb for verbs in APP.by_role().values() for verb in verbs} - set(
        " ".join(COMMANDS.values()).split()
    )
    if lost := sorted({*map(".".join, names), *verbs}):
        raise SystemExit(f"give these a place in topics.py: {', '.join(lost)}")
    described = set[tuple[str, str]]()  # what several classes share is described once
    for topic in TOPICS:
        page = "\n\n".join(topic_page(topic, described)) + "\n"
        (out / f"{topic.file}.md").write_text(page, encoding="utf-8")
    for title, listed in COMMANDS.items():
        page = "\n\n".join(command_page(title, listed.split())) + "\n"
        (out / f"{command_file(title)}.md").write_text(page, encoding="utf-8")


def command_file(title: str) -> str:
    return "command_" + title.lower().replace(" ", "_")


def public() -> set[tuple[str, str]]:
    """Return the module and name of whatever is public; a name of two modules counts in the first."""
    found: dict[int, tuple[str, str]] = {}
    for module in MODULES:
        loaded = import_module(module)
        for name in public_names(loaded):
            value = getattr(loaded, name)
            if not inspect.ismodule(value) or value.__name__ not in MODULES:
                found.setdefault(id(value), (module, name))
    return set(found.values())


def _entries(topic: Topic) -> Iterator[tuple[str, str]]:
    return ((module, name) for module, names in topic.names.items() for name in names.split())


def topic_page(topic: Topic, described: set[tuple[str, str]]) -> Iterator[str]:
    yield f"# {topic.title}"
    yield topic.lead
    yield _code("\n".join(map(_import, topic.names)))
    for module, name in _entries(topic):
        value = getattr(import_module(module), name)
        yield f"## {MODULES[module]}.{name}"
        if callable(value):
            yield _code(f"{name}{_signature(value)}")
            yield _markdown(inspect.getdoc(value) or "")
            if inspect.isclass(value):
                yield from _members(value, described)
        else:
            yield _code(f"{name} = {value!r:.300}")


def _import(module: str) -> str:
    parent, _, name = module.rpartition(".")
    return f"from {parent} import {name}" if parent else f"import {module} as {MODULES[module]}"


def public_names(module: ModuleType) -> list[str]:
    """Return the names that a module exports: `__all__`; of a package all it imports; else its classes."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    wanted = inspect.isclass if not hasattr(module, "__path__") else lambda value: not inspect.ismodule(value)
    return [
        name
        for name, value in vars(module).items()
        if name[0] != "_" and wanted(value) and name != "Iterable"
    ]


def _members(owner: type[Any], described: set[tuple[str, str]]) -> Iterator[str]:
    """Describe the methods and properties of a class but for those `described` before."""
    for name, value in inspect.getmembers(owner):
        home = next((base for base in owner.__mro__ if name in vars(base)), object)
        raw = vars(home).get(name)
        is_property = isinstance(raw, property | cached_property)
        if name.startswith("_") or not home.__module__.startswith("shiftdata"):
            continue
        doc = inspect.getdoc(raw if is_property else value)
        if not doc or not (callable(value) or is_property) or (name, doc) in described:
            continue
        described.add((name, doc))
        signature = "" if is_property else _signature(value)
        short = signature in ("", "(self)") or signature.startswith("(self) ->")
        yield f"### {owner.__name__}.{name}" + ("()" if signature and short else "")
        if not short:
            yield _code(f"{name}{signature}")
        yield _markdown(doc)


def command_page(title: str, verbs: Iterable[str]) -> Iterator[str]:
    yield f"# Command line: {title.lower()}"
    yield "`shiftdata VERB --help` prints the same."
    for verb in verbs:
        yield f"## {verb}"
        yield _code(_help(verb), "text")


def _help(*words: str) -> str:
    stream = io.StringIO()
    with contextlib.redirect_stdout(stream):
        main([*words, "--help"])
    return re.sub(r"^Usage: (python -m shiftdata|\S+)", "Usage: shiftdata", stream.getvalue().rstrip())


def _signature(value: Any) -> str:
    """Return the signature; a long one has a line for each parameter."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return "(...)"
    if len(text := _unquoted(str(signature))) <= LONGEST:
        return text
    words, kinds = [], set[Any]()
    for parameter in signature.parameters.values():
        if parameter.kind == parameter.KEYWORD_ONLY and not kinds & {
            parameter.KEYWORD_ONLY,
            parameter.VAR_POSITIONAL,
        }:
            words.append("*")
        kinds.add(parameter.kind)
        words.append(_unquoted(str(parameter)))
    result = text.rpartition(") -> ")[2] if ") -> " in text else ""
    return "(\n    " + ",\n    ".join(words) + ",\n)" + (f" -> {result}" if result else "")


def _unquoted(text: str) -> str:
    """Take the quotes from annotations, give texts those of the code around them, and name no address."""
    text = re.sub(r"<function .*? at 0x\w+>", "...", text)
    return re.sub(r"(: |-> )(['\"])(.*?)\2", r"\1\3", text).replace("'", '"')


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
    text = (head + rest).strip()
    return text if "```" in doc else re.sub(r"(`[^`]*`)|<", lambda found: found[1] or "&lt;", text)


def _fenced(found: re.Match[str]) -> str:
    return f"\n```python\n{found[0].rstrip()}\n```\n"
