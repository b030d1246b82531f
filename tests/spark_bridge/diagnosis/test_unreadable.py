"""Tests that an unreadable file is reported with a reason that helps the user."""

from __future__ import annotations

import pytest

from flykka.spark_bridge.diagnosis.unreadable import LONGEST_JSON_TEXT, too_long_text

COMMA = "JsonParseException: Unexpected character ('x' (code 120)): was expecting comma to separate Object entries at"


@pytest.mark.parametrize(("column", "is_too_long"), [(LONGEST_JSON_TEXT + 51_132, True), (52, False)])
def test_a_text_too_long_for_json_is_reported_as_such(column: int, is_too_long: bool) -> None:
    reason = too_long_text(f"{COMMA} [Source: UNKNOWN; line: 3, column: {column}]")

    assert (reason is not None) is is_too_long
    assert reason is None or reason.startswith("line 3 has a text of more than 20,000,000 characters")


def test_other_io_errors_are_not_reported_as_an_overlong_text() -> None:
    assert too_long_text("IOException: Input/output error") is None
