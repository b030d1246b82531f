"""Names of operators show the columns of a UDF, and none of PySpark's internals."""

from __future__ import annotations

import pytest

from flykka.views.text.column_text import column_text

ORIGIN = (
    "Origin(None,None,None,None,None,None,None,Some([Ljava.lang.StackTraceElement;@46558b21),Some((col,/a.py:13)),None)"
)
"""The form in which Spark records the origin of a column."""


def attribute(name: str) -> str:
    return f"UnresolvedAttribute(List({name}),None,false,{ORIGIN})"


def node(text: str) -> str:
    return f"columnnodeexpression({text})"


SUM = f"UnresolvedFunction(+,List({attribute('a')}, Literal(1,None,{ORIGIN})),false,false,false,{ORIGIN})"


@pytest.mark.parametrize(
    ("column", "text"),
    [
        ("value", "value"),
        ("Column<'+(price, 1) AS x'>", "+(price, 1) AS x"),
        (f"Column<'parse_line({node(attribute('value'))})'>", "parse_line(value)"),
        (f"Column<'parse({node(attribute('a'))}, {node(attribute('b, c'))})['x']'>", "parse(a, b.c)['x']"),
        (f"Column<'+(parse({node(attribute('v'))}), 1) AS x'>", "+(parse(v), 1) AS x"),
        (f"Column<'parse(p_line({node(attribute('x'))})#7L)#8L'>", "parse(p_line(x))"),
        (f"Column<'parse(v => {node(f'Literal(7,None,{ORIGIN})')})'>", "parse(v => 7)"),
        (f"Column<'parse({node(SUM)})'>", "parse(+(a, 1))"),
        (f"Column<'parse({node(f'SqlExpression(a,{ORIGIN})')})'>", "parse(...)"),
        (f"Column<'parse({node(f'Literal((,None,{ORIGIN})')})'>", "parse(..."),
    ],
)
def test_a_column_is_shown_as_its_user_wrote_it(column: str, text: str) -> None:
    assert column_text(column) == text
