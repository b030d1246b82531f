"""Failures as text: whatever was raised, it is told."""

from __future__ import annotations

from flykka.spark_bridge.failures import serialized


class SpeechlessError(Exception):
    """As one of Spark's is whose JVM is gone: nobody is there to ask for its text."""

    def __str__(self) -> str:
        raise ConnectionRefusedError


def test_a_failure_is_told_by_its_class_where_it_happened_and_what_it_says() -> None:
    told = serialized("stage 3", ValueError("no"))

    assert (told.type_name, told.message) == ("ValueError", "stage 3: no")


def test_a_failure_that_cannot_say_what_it_is_is_told_all_the_same() -> None:
    told = serialized("stage 3", SpeechlessError())

    assert told.type_name == "SpeechlessError"
    assert told.message.startswith("stage 3: ")
    assert "SpeechlessError" in told.stack_trace
