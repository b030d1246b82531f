"""Messages of the measured actors.

One instance is sent repeatedly, because creating messages costs both sides the same.
"""

from __future__ import annotations

from flykka.messages.wire.message import Message, message


@message("bench.work")
class Work(Message):
    """any sender -> actor: count this."""

    number: int = 0


@message("bench.question")
class Question(Message):
    """any sender -> actor: reply with a `Work`."""


@message("bench.begin")
class Begin(Message):
    """benchmark -> hub: send to all actors."""


WORK = Work()
QUESTION = Question()
BEGIN = Begin()
