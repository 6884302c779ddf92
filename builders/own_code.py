"""The code of somebody's own steps, which no `code_version` of this package stands for.

The whole module of a step counts, with every module of the same owner that it imports. Comments, docstrings
and the form of the code do not count, and neither does the recipe itself, so that a title can be changed.
"""

from __future__ import annotations

import ast
import sys
import sysconfig
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
    """Hash the code of a class or function and all that it may refer to; None where this package has it."""
    module = sys.modules.get(part.__module__)
    if module is None or not _is_own(module):
        return None
    modules = {module.__name__: module}
    _add_imports(module, modules)
    code = [_form(_tree(each)) for each in modules.values()]
    if isinstance(part, FunctionType) and "<lambda>" in part.__qualname__:  # it may lie within the recipe
        line = part.__code__.co_firstlineno
        nodes = ast.walk(_parsed(module))
        code += [_form(node) for node in nodes if isinstance(node, ast.Lambda) and node.lineno == line]
    return content_hash(*sorted(code))


def _add_imports(module: ModuleType, modules: dict[str, ModuleType]) -> None:
    """Add the own modules that a module imports, at any depth."""
    for name in _imported(module):
        imported = sys.modules.get(name)
        if imported is not None and name not in modules and _is_own(imported):
            modules[name] = imported
            _add_imports(imported, modules)


def _imported(module: ModuleType) -> Iterator[str]:
    """The names of modules that a module may import; `from a import b` may mean `a.b`."""
    for node in ast.walk(_parsed(module)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = (module.__package__ or "").split(".")
            package = above[: len(above) - node.level + 1] if node.level else []
            source = ".".join([*package, *filter(None, [node.module])])
            yield source
            yield from (f"{source}.{alias.name}" for alias in node.names)


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


@cache
def _parsed(module: ModuleType) -> ast.Module:
    """The code of a module as it was at the first call."""
    return ast.parse(Path(str(module.__file__)).read_bytes())


@cache
def _tree(module: ModuleType) -> ast.Module:
    """The code of a module without docstrings, paths and the recipe."""
    tree = ast.parse(ast.unparse(_parsed(module)))
    tree.body = [statement for statement in tree.body if not _is_recipe(statement)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                node.body = node.body[1:] or [ast.Pass()]
        elif isinstance(node, ast.AnnAssign) and "Path" in ast.unparse(node.annotation):
            node.value = None  # where a file lies is no code: a fingerprint identifies its content
    return tree


def _is_recipe(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id in ("RECIPE", "RECIPES") for target in statement.targets
    )
