"""Tags of classes that occur in traces without a codec are registered like tags of messages."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from flykka.messages.wire.codec import decode
from flykka.messages.wire.errors import DecodeError
from flykka.messages.wire.message import Value, value
from flykka.messages.wire.tags import class_of, name_in_trace, tag_of, trace_tag
from flykka.runtime.repeated_log import RepeatedLog


@trace_tag("tags_test.settings")
@dataclass(frozen=True, slots=True)
class Settings:
    size: int = 1


class More(Settings):
    pass


@trace_tag("tags_test.double")
def double(number: int) -> int:
    return 2 * number


@value("tags_test.amount")
class Amount(Value):
    pass


def test_a_class_and_its_objects_are_identified_by_the_tag() -> None:
    assert class_of("tags_test.settings") is Settings
    assert name_in_trace(Settings) == name_in_trace(Settings()) == "tags_test.settings"
    assert name_in_trace(double) == "tags_test.double"
    assert name_in_trace(Amount) == "tags_test.amount"


def test_a_class_without_a_tag_is_identified_by_its_name() -> None:
    assert (tag_of(More), name_in_trace(More)) == ("", f"{__name__}:More")
    assert name_in_trace(RepeatedLog) == "flykka.RepeatedLog", "wherever it is"
    assert name_in_trace(3) == "builtins:int"


@pytest.mark.parametrize("tag", ["tags_test.double", "tags_test.amount"])
def test_a_tag_cannot_be_used_by_two_classes(tag: str) -> None:
    with pytest.raises(ValueError, match="already belongs to"):
        trace_tag(tag)(Settings)

    assert tag_of(Settings) == "tags_test.settings"


def test_a_tag_in_another_format_is_refused() -> None:
    with pytest.raises(ValueError, match="is not of the form"):
        trace_tag("Settings")


def test_the_codec_decodes_only_values() -> None:
    with pytest.raises(DecodeError, match=r"expected Value, found tags_test\.settings"):
        decode(b"\x81\xa0\xb2tags_test.settings")
