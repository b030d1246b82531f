"""Classes may be declared again under their tags, as when a notebook cell is executed again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flykka.messages.wire.codec import decode, encode
from flykka.messages.wire.errors import DecodeError, EncodeError
from flykka.messages.wire.tags import class_of

AMOUNT = """
from enum import StrEnum
from flykka.messages.wire.message import Value, value

class Unit(StrEnum):
    ONE = "ONE"

@value("declared_again_test.amount")
class Amount(Value):
    number: int
    unit: Unit = Unit.ONE
"""
ORDER = """
@value("declared_again_test.order")
class Order(Value):
    amounts: tuple[Amount, ...]
    unit: Unit = Unit.ONE
"""

Run = Callable[[str], Any]


def test_the_newest_declaration_has_the_tag(run_cell: Run) -> None:
    first = run_cell(AMOUNT).Amount

    second = run_cell(AMOUNT).Amount

    assert first is not second
    assert class_of("declared_again_test.amount") is second


def test_an_older_instance_is_decoded_as_the_newest_class(run_cell: Run) -> None:
    before = run_cell(AMOUNT).Amount(number=3)

    cells = run_cell(AMOUNT)

    assert type(before) is not cells.Amount
    assert decode(encode(before)) == cells.Amount(number=3)


def test_an_instance_of_an_incompatible_older_declaration_is_refused(run_cell: Run) -> None:
    before = run_cell(AMOUNT).Amount(number=3)

    run_cell(AMOUNT.replace("number: int\n    unit", "number: int\n    currency: str\n    unit"))

    with pytest.raises(DecodeError, match=r"declared_again_test.amount: currency: the field is required, but missing"):
        decode(encode(before))


def test_another_class_does_not_get_the_tag(run_cell: Run) -> None:
    run_cell(AMOUNT)

    with pytest.raises(ValueError, match=r"already belongs to notebook_of_the_test.Amount"):
        run_cell(AMOUNT.replace("class Amount", "class Sum"))


def test_a_field_accepts_the_newest_declaration_of_its_class(run_cell: Run) -> None:
    cells = run_cell(AMOUNT)
    run_cell(ORDER)
    encode(cells.Order(amounts=(cells.Amount(number=3),)))

    run_cell(AMOUNT)
    order = cells.Order(amounts=(cells.Amount(number=4),), unit=cells.Unit.ONE)

    assert decode(encode(order)) == order


def test_a_field_refuses_an_undeclared_class(run_cell: Run) -> None:
    cells = run_cell(AMOUNT)
    run_cell(ORDER)
    derived = type("Discount", (cells.Amount,), {})

    with pytest.raises(EncodeError, match=r"amounts\[0\]: Discount is not declared with @value or @message"):
        encode(cells.Order(amounts=(derived(number=3),)))
