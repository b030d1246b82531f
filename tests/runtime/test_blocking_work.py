"""Traces describe blocking work by its function and its arguments, as far as these can be encoded."""

from __future__ import annotations

from enum import StrEnum
from functools import partial

from flykka.messages.kernel.blocking_work import BlockingWork, LiveObject
from flykka.messages.wire.codec import decode, encode
from flykka.messages.wire.failure import SerializedThrowable
from flykka.runtime.dispatch.dispatcher import describe_work


class Colour(StrEnum):
    RED = "red"


class Storage:
    def write(self, *arguments: object) -> None: ...


def write(*arguments: object, keep: bool = False) -> None: ...


def test_a_partial_is_described_by_its_arguments() -> None:
    failure = SerializedThrowable(type_name="OSError", message="gone")

    work = describe_work(partial(write, 7, ("a", (b"b", None)), failure, Colour.RED, keep=True))

    assert work == BlockingWork(
        function="write", arguments=(7, ("a", (b"b", None)), failure, "red", True), keywords=("keep",)
    )
    assert decode(encode(work)) == work


def test_live_objects_are_not_recorded_as_arguments() -> None:
    work = describe_work(partial(Storage().write, "x", object(), ((((1,),),),)))

    assert work == BlockingWork(function="write", arguments=("x", LiveObject(), (((LiveObject(),),),)))
    assert decode(encode(work)) == work


def test_other_values_are_described_by_their_class_name() -> None:
    assert describe_work(write) == BlockingWork(function="write")
    assert describe_work(lambda: None) == BlockingWork(function="<lambda>")
    assert describe_work(object()) == BlockingWork(function="object")
