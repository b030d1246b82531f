"""What a trace holds, made to live again: messages whose refs somebody stands behind, and errors to be raised."""

from __future__ import annotations

import builtins

from flykka.messages.wire.codec import decode, encode
from flykka.messages.wire.errors import CodecError
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.message import Message, Value, class_of
from flykka.messages.wire.ref import Resolve
from flykka.runtime import errors
from flykka.runtime.trace.effects import Undecoded
from flykka.runtime.trace.text import message_tag


class UnknownTypeError(Exception):
    """A recorded message cannot be read here."""


def living(message: Value | Undecoded, resolve: Resolve) -> Message:
    """A message of the trace, with refs behind which somebody stands. Raises `UnknownTypeError`."""
    try:
        if isinstance(message, Undecoded) and not message.data:
            raise UnknownTypeError(
                f"the trace does not hold this message, so that none can be handled: {message.reason}"
            )
        if isinstance(message, Undecoded) and class_of(message_tag(message)) is None:
            tag = message_tag(message)
            raise UnknownTypeError(f"no class is known here for messages {tag!r}: import the module that declares it")
        revived = decode(message.data if isinstance(message, Undecoded) else encode(message), resolve)
    except CodecError as refusal:
        raise UnknownTypeError(str(refusal)) from None
    if not isinstance(revived, Message):
        raise UnknownTypeError(f"a {type(revived).__name__} is no message")
    return revived


def error_of(failure: SerializedThrowable) -> BaseException:
    """A living error of the recorded name and text: of the kernel's or of Python's own class where it is one."""
    if failure.type_name == errors.AskFailedError.__name__:
        type_name, _, text = failure.message.partition(": ")
        asked = SerializedThrowable(type_name=type_name, message=text, stack_trace=failure.stack_trace)
        return errors.AskFailedError(asked)
    for module in (errors, builtins):
        kind = getattr(module, failure.type_name, None)
        if isinstance(kind, type) and issubclass(kind, BaseException) and _takes_text(kind, failure.message):
            return kind(failure.message)
    error: BaseException = type(failure.type_name, (Exception,), {})(failure.message)
    return error


def _takes_text(kind: type[BaseException], text: str) -> bool:
    """Whether an error of this class is made of its text alone."""
    try:
        return str(kind(text)) == text
    except Exception:  # noqa: BLE001 - whatever its initialiser makes of a text, it is no such class.
        return False
