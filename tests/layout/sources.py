"""Sources of the project: their paths, their imports, and the lengths of their functions.

Each file is parsed once and its syntax tree dropped, because a thousand trees would be millions of objects, which every
garbage collection would traverse as long as the tests run.
"""

from __future__ import annotations

import ast
import os
import sys
from dataclasses import dataclass
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("messages", "runtime", "actors", "spark_bridge")
PRODUCT = (*PACKAGES, "flykka")
BESIDE_THE_PACKAGES = ("flykka", "tests", "examples", "benchmarks", "scripts")


class Import(NamedTuple):
    """One imported name, in full: `from a import b` imports `a.b`."""

    line: int
    name: str


class Function(NamedTuple):
    line: int
    name: str
    lines: int


@dataclass(frozen=True)
class Source:
    path: Path

    def __str__(self) -> str:
        return self.path.as_posix()

    @property
    def text(self) -> str:
        return (ROOT / self.path).read_text(encoding="utf-8")

    @property
    def tree(self) -> ast.Module:
        """The syntax tree, which is parsed again each time."""
        return ast.parse(self.text, filename=str(self.path))

    @property
    def imports(self) -> tuple[Import, ...]:
        """All imports, including those inside functions."""
        return _parsed(self)[0]

    @property
    def functions(self) -> tuple[Function, ...]:
        """All functions defined with `def`, including nested ones and methods."""
        return _parsed(self)[1]

    @property
    def package(self) -> str:
        return self.path.parts[0]

    @property
    def is_machine(self) -> bool:
        return self.path.parts[:2] == ("actors", "machines") or self.path.as_posix() == "actors/errors.py"


@cache
def _parsed(source: Source) -> tuple[tuple[Import, ...], tuple[Function, ...]]:
    imports: list[Import] = []
    functions: list[Function] = []
    for node in ast.walk(source.tree):
        match node:
            case ast.Import(names=names):
                imports += (Import(node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                base = "." * level + (module or "")
                imports += (Import(node.lineno, f"{base}.{alias.name}") for alias in names)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                functions.append(Function(node.lineno, name, (node.end_lineno or node.lineno) - node.lineno + 1))
    return tuple(imports), tuple(functions)


@cache
def sources() -> tuple[Source, ...]:
    """Return every Python file of the project once; links inside `flykka` are not followed."""
    found: list[Source] = []
    for folder in (*PACKAGES, *BESIDE_THE_PACKAGES):
        for parent, _, names in os.walk(ROOT / folder, followlinks=False):
            found += [Source((Path(parent) / name).relative_to(ROOT)) for name in names if name.endswith(".py")]
    return tuple(sorted(found, key=str))


@cache
def script(name: str) -> ModuleType:
    spec = spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
