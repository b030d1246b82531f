"""Measures the structure of the product: `python scripts/structure.py [--list]`; lower numbers are better.

All imports count, including those within functions and those for types only.
"""

from __future__ import annotations

import argparse
import ast
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("actors", "flykka", "messages", "runtime", "spark_bridge")
"""The folders of the product; the links to other folders in `flykka` are not followed."""
FACADES = ("KeyedStream", "DataStream", "StreamExecutionEnvironment")
"""Public classes whose ancestors are counted."""


@dataclass(frozen=True)
class Module:
    """A module with its dotted name and the text of its file."""

    name: str
    text: str
    is_package: bool = False

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def folder(self) -> str:
        """The module's package; for a package, the package itself."""
        return self.name if self.is_package else self.name.rpartition(".")[0]

    def imported_names(self) -> Iterator[tuple[str, ...]]:
        """Yield the possible names of each import, the more specific name first."""
        for node in ast.walk(self.tree):
            match node:
                case ast.Import(names=names):
                    yield from ((alias.name,) for alias in names)
                case ast.ImportFrom(module=str(module), names=names):
                    yield from ((f"{module}.{alias.name}", module) for alias in names)

    def import_lines(self) -> int:
        imports = (node for node in ast.walk(self.tree) if isinstance(node, ast.Import | ast.ImportFrom))
        return sum((node.end_lineno or node.lineno) - node.lineno + 1 for node in imports)

    def classes(self) -> list[str]:
        """Return the names of all classes, including nested ones."""
        return [node.name for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef)]


def read_modules() -> dict[str, Module]:
    """Return the modules of the product by their names."""
    modules = {}
    for package in PACKAGES:
        for parent, _, names in os.walk(ROOT / package, followlinks=False):
            for path in (Path(parent) / name for name in names if name.endswith(".py")):
                parts = path.relative_to(ROOT).with_suffix("").parts
                parts = parts if parts[0] == "flykka" else ("flykka", *parts)
                is_package = parts[-1] == "__init__"
                name = ".".join(parts[:-1] if is_package else parts)
                modules[name] = Module(name, path.read_text(encoding="utf-8"), is_package)
    return dict(sorted(modules.items()))


def imports_between(modules: Mapping[str, Module]) -> dict[str, set[str]]:
    """Return the modules of the product that each module imports."""
    edges: dict[str, set[str]] = {name: set() for name in modules}
    for user in modules.values():
        for names in user.imported_names():
            used = next((name for name in names if name in modules), user.name)
            edges[user.name] |= {used} - {user.name}
    return edges


def mutual_folders(edges: Mapping[str, set[str]], package: str) -> list[tuple[str, str]]:
    """Return the pairs of folders and modules of `package` that import each other."""

    def part_of(name: str) -> str:
        return name.removeprefix(f"{package}.").split(".")[0] if name.startswith(f"{package}.") else ""

    pairs = {(part_of(user), part_of(used)) for user, all_used in edges.items() for used in all_used}
    return sorted((here, there) for here, there in pairs if here and here < there and (there, here) in pairs)


def circles(edges: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the strongly connected components with more than one module, largest first (Tarjan's algorithm)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for used in sorted(edges[name]):
            if used not in index:
                visit(used)
                low[name] = min(low[name], low[used])
            elif used in stack:
                low[name] = min(low[name], index[used])
        if low[name] == index[name]:
            place = stack.index(name)
            component = sorted(stack[place:])
            del stack[place:]
            if len(component) > 1:
                found.append(component)

    for name in edges:
        if name not in index:
            visit(name)
    return sorted(found, key=len, reverse=True)


def sole_importers(edges: Mapping[str, set[str]]) -> dict[str, str]:
    """Return the modules that are imported by exactly one module, mapped to that module."""
    importers: dict[str, list[str]] = {name: [] for name in edges}
    for user, all_used in edges.items():
        for used in all_used:
            importers[used].append(user)
    return {name: users[0] for name, users in importers.items() if len(users) == 1}


def ancestors(facade: str) -> int:
    """Count the classes that a public class inherits from, except `object`."""
    sys.path.insert(0, str(ROOT))
    import flykka

    return len(getattr(flykka, facade).__mro__) - 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--list", action="store_true", help="list the pairs, the circles and the names that are counted"
    )
    is_listing = parser.parse_args().list
    modules = read_modules()
    edges = imports_between(modules)

    def show(title: str, count: object, items: list[str]) -> None:
        print(f"{title}: {count}")
        if is_listing:
            print(*(f"  {item}" for item in items), sep="\n")

    pairs = mutual_folders(edges, "flykka.spark_bridge")
    show("folders of spark_bridge that import each other", len(pairs), [" <-> ".join(pair) for pair in pairs])
    rounds = circles(edges)
    largest = len(rounds[0]) if rounds else 0
    show("circles of imports", f"{len(rounds)}, the largest of {largest} modules", [" ".join(each) for each in rounds])
    show("files", len(modules), [])
    show("lines", sum(module.text.count("\n") for module in modules.values()), [])
    show("lines of imports", sum(module.import_lines() for module in modules.values()), [])
    classes = Counter(name for module in modules.values() for name in module.classes())
    twice = sorted(name for name, count in classes.items() if count > 1)
    show("names of two or more classes", len(twice), twice)
    for facade in FACADES:
        show(f"ancestors of {facade}", ancestors(facade), [])
    sole = sole_importers(edges)
    near = [name for name, user in sole.items() if modules[name].folder == modules[user].folder]
    show("modules with one importer", f"{len(sole)}, {len(near)} of them in its folder", near)


if __name__ == "__main__":
    main()
