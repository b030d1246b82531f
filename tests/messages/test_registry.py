"""Every declared class survives the wire, and matches the frozen list."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flykka.messages.wire.codec import decode, encode
from flykka.messages.wire.errors import DecodeError
from flykka.messages.wire.message import Message, Value
from tests.messages.registry import any_instance, declared_messages
from tests.messages.tags import FROZEN, lines


@pytest.mark.slow
@pytest.mark.parametrize("cls", declared_messages().values(), ids=declared_messages())
@settings(max_examples=3, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_every_declared_class_round_trips_over_the_wire(cls: type[Value], data: st.DataObject) -> None:
    value = data.draw(any_instance(cls))

    wire = encode(value)

    assert decode(wire) == value
    assert encode(decode(wire)) == wire


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(value=any_instance(Value), data=st.data())
def test_mutated_bytes_are_decoded_or_refused_without_side_effects(value: Value, data: st.DataObject) -> None:
    wire = bytearray(encode(value))
    for _ in range(data.draw(st.integers(1, 4))):
        wire[data.draw(st.integers(0, len(wire) - 1))] = data.draw(st.integers(0, 255))

    with suppress(DecodeError):
        outcome = decode(bytes(wire))
        assert encode(decode(encode(outcome))) == encode(outcome)


def test_declared_classes_have_docstrings_and_messages_name_their_senders() -> None:
    texts = {tag: (cls.__doc__ or "").strip() for tag, cls in declared_messages().items()}

    assert [tag for tag, text in texts.items() if not text.endswith((".", "?"))] == []
    without = [tag for tag, text in texts.items() if issubclass(declared_messages()[tag], Message) and "->" not in text]
    assert without == [], "a message says: sender -> receiver: what it asserts"


def test_declared_tags_match_the_frozen_list() -> None:
    frozen = FROZEN.read_text().splitlines()

    assert lines() == frozen, (
        "lines may be added, and fields with a default at a line's end: `python -m tests.messages.tags` writes them; "
        "nothing else may change, or old traces and checkpoints cannot be read"
    )
