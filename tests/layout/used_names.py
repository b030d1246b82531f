"""The text that a test uses: its own text, and that of all names to which it refers, in its file and in modules of
tests.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from tests.layout.sources import ROOT


def text_of(test: str) -> str:
    """Return the text that `file::test` reaches, for a function that pytest collects; empty if there is no such
    function.
    """
    path, _, name = test.partition("::")
    file = ROOT / "tests" / path
    if not file.is_file() or not name.startswith("test_") or name not in _definitions(file):
        return ""
    ahead, seen = [(file, name)], {(file, name)}
    texts = []
    while ahead:
        here, called = ahead.pop()
        text, named = _definitions(here)[called]
        texts.append(text)
        found = {place for each in named if (place := _place(here, each)) is not None} - seen
        seen |= found
        ahead += found
    return "\n".join(texts)


def _place(file: Path, name: str) -> tuple[Path, str] | None:
    """Return the file that defines a name used in `file`, and the defined name."""
    if name in _definitions(file):
        return file, name
    module = _imports(file).get(name)
    if module is None or name not in _definitions(module):
        return None
    return module, name


@cache
def _definitions(file: Path) -> dict[str, tuple[str, frozenset[str]]]:
    """Return the functions, classes and values of a file: the text of each, and the names in it."""
    lines = file.read_text(encoding="utf-8").splitlines()
    found = {}
    for node in _tree(file).body:
        first = min(node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ())), node.lineno)
        text = "\n".join(lines[first - 1 : node.end_lineno])
        for name in _defined(node):
            names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
            arguments = {each.arg for each in ast.walk(node) if isinstance(each, ast.arg)}
            found[name] = text, frozenset(names | arguments)
    return found


def _defined(node: ast.stmt) -> list[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [node.name]
        case ast.Assign():
            return [each.id for each in node.targets if isinstance(each, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
    return []


@cache
def _imports(file: Path) -> dict[str, Path]:
    """Return the names that a file imports from modules of tests, with the files of these modules."""
    nodes = (node for node in _tree(file).body if isinstance(node, ast.ImportFrom))
    found = {each.name: _file(node.module or "") for node in nodes for each in node.names}
    return {name: file for name, file in found.items() if file is not None}


def _file(module: str) -> Path | None:
    if not module.startswith("tests."):
        return None
    file = ROOT.joinpath(*module.split(".")).with_suffix(".py")
    return file if file.is_file() else None


@cache
def _tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))
