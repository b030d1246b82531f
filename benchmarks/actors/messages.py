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
    """benchmark -> hub: start the benchmark by sending a message to every actor."""


WORK = Work()
QUESTION = Question()
BEGIN = Begin()
