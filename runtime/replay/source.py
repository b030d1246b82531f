"""Finds the code that handles a message: file and line of the `case` that names its class, or of the handler."""

from __future__ import annotations

import ast
import inspect
import linecache
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flykka.messages.wire.message import Message
    from flykka.runtime.cell.cell import Cell


def source_of(cell: Cell, message: Message | None) -> str | None:
    """`file:line`, None where there is no source."""
    instance = cell.instance
    if instance is None:
        return None
    behaviours = cell.behaviours
    handler: Any = instance.handle_message if behaviours is None else behaviours.top
    if message is None or not getattr(cell, "behaviour", None):
        handler = getattr(type(instance), "pre_start", handler)
    code = getattr(inspect.unwrap(handler), "__code__", None)
    if code is None:
        return None
    line = _case_line(code.co_filename, code.co_firstlineno, type(message).__name__)
    return f"{_shown(code.co_filename)}:{line or code.co_firstlineno}"


def _case_line(filename: str, first_line: int, name: str) -> int | None:
    """The line of the first `case` in the function at `first_line` whose pattern names the class."""
    source = "".join(linecache.getlines(filename))
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return None
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, functions) and _begins(node) == first_line:
            return next((case.pattern.lineno for case in _cases(node) if _names(case.pattern, name)), None)
    return None


def _begins(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    # A code object begins with its first decorator.
    return min([function.lineno, *(each.lineno for each in function.decorator_list)])


def _cases(function: ast.AST) -> list[ast.match_case]:
    cases = [each for each in ast.walk(function) if isinstance(each, ast.match_case)]
    return sorted(cases, key=lambda each: each.pattern.lineno)


def _names(pattern: ast.pattern, name: str) -> bool:
    classes = [each.cls for each in ast.walk(pattern) if isinstance(each, ast.MatchClass)]
    return any(_last_name(each) == name for each in classes)


def _last_name(expression: ast.expr) -> str:
    return expression.attr if isinstance(expression, ast.Attribute) else getattr(expression, "id", "")


def _shown(filename: str) -> str:
    """The path from the current folder, or else from where it was imported: the same on every machine."""
    for folder in (os.getcwd(), *sorted(filter(os.path.isabs, sys.path), key=len, reverse=True)):
        if filename.startswith(os.path.join(folder, "")):
            return os.path.relpath(filename, folder)
    return filename
