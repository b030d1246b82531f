"""A name between backticks in a docstring of the product exists in the product."""

from __future__ import annotations

import ast
import builtins
import keyword
import re
from collections.abc import Iterator

import pytest

from tests.layout.sources import PRODUCT, Source, sources

pytestmark = pytest.mark.slow

NAME = re.compile(r"(?<!`)`([A-Za-z_]\w*)(?:\(\))?`(?!`)")
WORD = re.compile(r"\w+")
ELSEWHERE = frozenset(
    {
        # SQL and functions of PostgreSQL.
        *("SHOW", "DESCRIBE", "EXPLAIN", "MERGE", "static", "pg_current_snapshot"),
        # Spark, PySpark and psycopg.
        *("addPyFile", "applyInArrow", "localCheckpoint", "LogicalRDD", "mapInArrow", "mapInPandas", "mergeSchema"),
        *("socketTextStream", "transaction"),
        # Flink and Akka.
        *("GlobalConfiguration", "isWindowLate", "restartWithBackoff"),
        # The environment, HTTP, HTML, asyncio, and folders and prefixes outside the product.
        *("FLYKKA_CONFIG", "Origin", "stroke_width", "gather", "flink_", "tests"),
    }
)
"""Names that docstrings of the product mention and that the product itself does not use."""


def docstrings(tree: ast.Module) -> Iterator[ast.Constant]:
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str()) as constant):
                yield constant


def words_of_code(text: str, tree: ast.Module) -> set[str]:
    lines = text.splitlines()
    for each in docstrings(tree):
        assert each.end_lineno is not None
        lines[each.lineno - 1 : each.end_lineno] = [""] * (each.end_lineno - each.lineno + 1)
    return set(WORD.findall("\n".join(lines)))


def known_everywhere(source: Source, tree: ast.Module) -> Iterator[str]:
    """Yield names that any docstring may mention: modules, functions, classes, constants, imports and strings."""
    yield from source.path.with_suffix("").parts
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Assign(targets=[ast.Name(id=name)]) if name.isupper():
                yield name
            case ast.alias(name=name):
                yield from name.split(".")
            case ast.Constant(value=str(text)) if text.isidentifier():
                yield text


def missing(text: object, known: set[str]) -> list[str]:
    """Return the unknown names between backticks. The name of an enum's member may be in lower case."""
    return [name for name in NAME.findall(str(text)) if not {name, name.upper()} & known]


def test_names_in_docstrings_exist() -> None:
    known = {*dir(builtins), *keyword.kwlist, *keyword.softkwlist, *ELSEWHERE}
    product = [(source, source.tree) for source in sources() if source.package in PRODUCT]
    for source, tree in product:
        known.update(known_everywhere(source, tree))

    wrong: list[str] = []
    for source, tree in product:
        names = known | words_of_code(source.text, tree)
        wrong += (f"{source}:{each.lineno} {name}" for each in docstrings(tree) for name in missing(each.value, names))

    assert wrong == []


def test_names_outside_the_product_are_mentioned() -> None:
    mentioned = {
        name
        for source in sources()
        if source.package in PRODUCT
        for each in docstrings(source.tree)
        for name in NAME.findall(str(each.value))
    }

    assert mentioned >= ELSEWHERE


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Return the rows of `slices`.", []),
        ("Return the rows of `parts`, `parts()` and `slices`.", ["parts", "parts"]),
        ("The state is `running`.", []),
        ("See ``code`` and `a.b` and `a b`.", []),
    ],
)
def test_a_renamed_parameter_is_detected(text: str, names: list[str]) -> None:
    tree = ast.parse('def read(slices: list[str]) -> None:\n    """Read `parts`."""\n\nclass State:\n    RUNNING = 1\n')
    known = words_of_code(ast.unparse(tree), ast.parse(ast.unparse(tree)))

    assert missing(text, known) == names
