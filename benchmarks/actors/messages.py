"""Messages of the measured actors. One message is told again and again: making it would cost both sides the same."""

from __future__ import annotations

from flykka.messages.wire.message import Message, message


@message("bench.work")
class Work(Message):
    """anyone -> actor: count this."""

    number: int = 0


@message("bench.question")
class Question(Message):
    """anyone -> actor: answer with a `Work`."""


@message("bench.begin")
class Begin(Message):
    """the measuring -> the one in the middle of many: tell all of them."""


WORK = Work()
QUESTION = Question()
BEGIN = Begin()
