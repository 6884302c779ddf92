"""The code of somebody's own steps, which no `code_version` of this package identifies.

What counts of a module outside the package is the class and whatever it refers to, in its own module and in
others next to it: functions, constants, decorators, base classes. Comments, docstrings and the form of the
code do not count, and neither does the recipe itself, so that a title can be changed.
"""

from __future__ import annotations

import ast
import sys
import sysconfig
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType

import shiftdata
from shiftdata.stable import content_hash

#: Where code lies whose version identifies it: this package, Python and what is installed.
_INSTALLED = (
    Path(__file__).resolve().parent,
    Path(shiftdata.__file__).resolve().parent,
    *(Path(sysconfig.get_paths()[name]).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")),
)


def own_code(part: type | FunctionType) -> str | None:
    """Hash the code of a class or function, and all it refers to; None where this package has it."""
    module = sys.modules.get(part.__module__)
    if module is None or not _is_own(module):
        return None
    closure = _Closure()
    if "<lambda>" in part.__qualname__ and isinstance(part, FunctionType):
        for node in ast.walk(_tree(module)):
            if isinstance(node, ast.Lambda) and node.lineno == part.__code__.co_firstlineno:
                closure.add_node(module, node)
    else:
        closure.add(module, part.__qualname__.partition(".")[0])
    return content_hash(*sorted(closure.code))


class _Closure:
    """The definitions that some code depends on, each once."""

    def __init__(self) -> None:
        self.code: list[str] = []
        self._seen: set[tuple[str, str]] = set()

    def add(self, module: ModuleType, name: str) -> None:
        """Add the definition of a name of a module, and all that it refers to."""
        if (module.__name__, name) in self._seen:
            return
        self._seen.add((module.__name__, name))
        defined = _defined(module)
        for statement in defined.get(name, defined.get("*", [])):
            if isinstance(statement, ast.Import | ast.ImportFrom):
                self._follow(module, statement, name)
            else:
                self.add_node(module, statement)

    def add_node(self, module: ModuleType, node: ast.AST) -> None:
        """Add a piece of code, and all that it refers to."""
        self.code.append(_form(node))
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name):
                self.add(module, inner.id)
            elif isinstance(inner, ast.Import | ast.ImportFrom):  # within a function
                for alias in inner.names:
                    self._follow(module, inner, alias.asname or alias.name.partition(".")[0])

    def _follow(self, module: ModuleType, statement: ast.Import | ast.ImportFrom, name: str) -> None:
        """Add what an import brings, where it comes from somebody's own code."""
        for alias in statement.names:
            if name not in (alias.asname, alias.name, alias.name.partition(".")[0]) and alias.name != "*":
                continue
            source, is_whole = alias.name, isinstance(statement, ast.Import) or alias.name == "*"
            if isinstance(statement, ast.ImportFrom):
                source = _absolute(module, statement)
                if f"{source}.{alias.name}" in sys.modules:
                    source, is_whole = f"{source}.{alias.name}", True
            imported = sys.modules.get(source)
            if imported is not None and _is_own(imported):
                # Which names of a whole module are used is unknown: all of them count.
                for used in _defined(imported) if is_whole else (alias.name,):
                    self.add(imported, used)


def _form(node: object) -> str:
    """Code as text, the same under every version of Python: `ast.dump` names other fields in each."""
    if isinstance(node, ast.Constant):
        return f"{type(node.value).__name__} {node.value!r}"
    if isinstance(node, ast.AST):
        fields = [(name, value) for name, value in ast.iter_fields(node) if value not in (None, [])]
        return f"{type(node).__name__}({', '.join(f'{name}={_form(value)}' for name, value in fields)})"
    return f"[{', '.join(map(_form, node))}]" if isinstance(node, list) else repr(node)


@cache
def _is_own(module: ModuleType) -> bool:
    """Return True for a module outside this package that has a source."""
    file = getattr(module, "__file__", None)
    if not file or not file.endswith(".py"):
        return False
    path = Path(file).resolve()
    return path.is_file() and not any(path.is_relative_to(folder) for folder in _INSTALLED)


def _absolute(module: ModuleType, statement: ast.ImportFrom) -> str:
    """The name of the module that an import names, maybe relative to its own."""
    above = (module.__package__ or "").split(".")
    package = above[: len(above) - statement.level + 1] if statement.level else []
    return ".".join([*package, *filter(None, [statement.module])])


@cache
def _tree(module: ModuleType) -> ast.Module:
    """The code of a module, as it was when first asked for: without docstrings and paths."""
    tree = ast.parse(Path(str(module.__file__)).read_bytes())
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                node.body = node.body[1:] or [ast.Pass()]
        elif isinstance(node, ast.AnnAssign) and "Path" in ast.unparse(node.annotation):
            node.value = None  # where a file lies is no code: a fingerprint identifies its content
    return tree


@cache
def _defined(module: ModuleType) -> dict[str, list[ast.stmt]]:
    """The statements of a module that define or change each of its names."""
    statements: dict[str, list[ast.stmt]] = defaultdict(list)
    for statement in _tree(module).body:
        for name in set(_names(statement)):
            statements[name].append(statement)
    return dict(statements)


def _names(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement defines or changes, such as by `TABLE.update(...)`."""
    targets: list[ast.expr] = []
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        yield from (alias.asname or alias.name.partition(".")[0] for alias in statement.names)
    elif isinstance(statement, ast.If | ast.For | ast.While | ast.Try | ast.With):
        for inner in ast.walk(statement):
            if isinstance(inner, ast.stmt) and inner is not statement:
                yield from _names(inner)
    elif isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign | ast.AugAssign):
        targets = [statement.target]
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        targets = [statement.value.func]
    yield from (node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name))
