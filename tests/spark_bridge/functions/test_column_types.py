"""Tests that state types are parsed from DDL."""

from __future__ import annotations

import pytest
from hypothesis import given

from flykka.spark_bridge.errors import StateDescriptorError
from flykka.spark_bridge.functions.column_types import ColumnType, column_type
from tests.spark_bridge.functions.typed_values import types


@given(types())
def test_a_type_is_parsed_as_written(type_: ColumnType) -> None:
    assert column_type(str(type_), "any") == type_


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (" LONG ", "bigint"),
        ("integer", "int"),
        ("short", "smallint"),
        ("byte", "tinyint"),
        ("real", "float"),
        ("timestamp_ltz", "timestamp"),
        ("numeric", "decimal(10,0)"),
        ("dec( 5 )", "decimal(5,0)"),
        ("decimal(38, 38)", "decimal(38,38)"),
        ("Array < Map < string , DOUBLE > >", "array<map<string,double>>"),
        ("struct<a: int, `b c`: string>", "struct<a:int,`b c`:string>"),
        ("struct<a int, int int>", "struct<a:int,int:int>"),
        ("struct<`a``b`: int>", "struct<`a``b`:int>"),
    ],
)
def test_types_are_written_as_spark_writes_them(text: str, written: str) -> None:
    assert str(column_type(text, "any")) == written


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "a type is missing at the end"),
        ("bigin", "'bigin' is not a type that state can have"),
        ("void", "'void' is not a type that state can have"),
        ("interval day to second", "'interval' is not a type that state can have"),
        ("bigint bigint", "nothing may follow 'bigint'"),
        ("array", "'<' is missing at the end"),
        ("array<int", "'>' is missing at the end"),
        ("array<int;>", "'>' is missing before ';>'"),
        ("map<string>", "',' is missing before '>'"),
        ("map<map<int,int>,int>", "the keys of a map cannot hold a map"),
        ("struct<>", "the name of a field is missing before '>'"),
        ("struct<a:int,A:int>", "the field 'A' occurs twice"),
        ("decimal(39)", "a decimal has at most 38 digits, including those after the point"),
        ("decimal(3,4)", "a decimal has at most 38 digits, including those after the point"),
        ("decimal(a)", "'a' is not a number"),
    ],
)
def test_an_error_names_the_state_with_an_invalid_type(text: str, why: str) -> None:
    with pytest.raises(StateDescriptorError) as refused:
        column_type(text, "seen")

    assert str(refused.value) == f"the type {text!r} of state 'seen' cannot be read: {why}"


def test_a_type_must_be_a_text() -> None:
    with pytest.raises(
        StateDescriptorError, match="the type of state 'seen' is <class 'int'>: write it as in Spark's DDL"
    ):
        column_type(int, "seen")  # type: ignore[arg-type]
