"""`@message` and `@value` complete a class, and refuse invalid ones."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from flykka.messages.wire.message import Message, Value, message, value
from flykka.messages.wire.tags import class_of, registered


@message("message_test.greet")
class Greet(Message):
    name: str
    times: int = 1


def test_a_message_is_an_immutable_value_with_keyword_fields() -> None:
    greeting = Greet(name="Ada")

    with pytest.raises(dataclasses.FrozenInstanceError):
        greeting.times = 2  # type: ignore[misc]
    with pytest.raises(TypeError):
        Greet("Ada")  # type: ignore[call-arg]
    assert not hasattr(greeting, "__dict__")
    assert greeting == Greet(name="Ada", times=1)
    assert hash(greeting) == hash(Greet(name="Ada", times=1))


def test_a_declared_class_is_found_by_its_tag() -> None:
    assert Greet.wire_tag == "message_test.greet"
    assert class_of("message_test.greet") is Greet
    assert registered()["message_test.greet"] is Greet
    assert class_of("message_test.nobody") is None


def test_the_registry_is_sorted_by_tag() -> None:
    tags = list(registered())

    assert tags == sorted(tags)


@pytest.mark.parametrize("tag", ["greet", "Message.greet", "message.", "message.greet.again", "message-test.greet", ""])
def test_a_tag_in_another_format_is_refused(tag: str) -> None:
    with pytest.raises(ValueError, match="is not of the form"):
        value(tag)


@pytest.mark.parametrize(("declare", "base"), [(message, Value), (value, object)])
def test_a_class_without_the_required_base_class_is_refused(declare: Any, base: type) -> None:
    outsider = type("Outsider", (base,), {})

    with pytest.raises(TypeError, match="does not derive from"):
        declare("message_test.outsider")(outsider)

    assert class_of("message_test.outsider") is None


def test_a_tag_cannot_be_used_by_two_classes() -> None:
    class Other(Message):
        """test -> test: declares a tag that another class has."""

    with pytest.raises(ValueError, match="already belongs to"):
        message("message_test.greet")(Other)

    assert class_of("message_test.greet") is Greet


def test_a_redeclared_class_takes_over_its_tag() -> None:
    def declare() -> type[Message]:
        @message("message_test.cell")
        class Cell(Message):
            """test -> test: declared again, as in a notebook cell that is executed again."""

        return Cell

    first, second = declare(), declare()

    assert first is not second
    assert class_of("message_test.cell") is second
