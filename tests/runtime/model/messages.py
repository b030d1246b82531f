"""Messages of the random actors."""

from __future__ import annotations

from flykka.messages.wire.message import Message, message


@message("model.do")
class Do(Message):
    """anyone -> creature: perform a random action. `number` counts the messages of `speaker` to this actor."""

    token: int
    speaker: str
    number: int
    fuel: int


@message("model.question")
class Question(Message):
    """anyone -> creature: perform a random action, as for `Do`, and answer."""

    token: int
    speaker: str
    number: int
    fuel: int


@message("model.answer")
class Answer(Message):
    """creature -> asker: the answer to the question with this token."""

    token: int


@message("model.tick")
class Tick(Message):
    """timer or work -> creature: a tick of the timer, or the result of the work, that this actor started under this
    token.
    """

    token: int


@message("model.done")
class Done(Message):
    """work -> creature: the work has completed."""

    token: int
