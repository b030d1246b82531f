"""The messages of the model's actors."""

from __future__ import annotations

from flykka.messages.wire.message import Message, message


@message("model.do")
class Do(Message):
    """anyone -> creature: do what the dice decide. `number` counts the messages of `speaker` to this creature."""

    token: int
    speaker: str
    number: int
    fuel: int


@message("model.question")
class Question(Message):
    """anyone -> creature: the same, and answer."""

    token: int
    speaker: str
    number: int
    fuel: int


@message("model.answer")
class Answer(Message):
    """creature -> asker: the answer to the question of this token."""

    token: int


@message("model.tick")
class Tick(Message):
    """timer or work -> creature: a tick of the timer or work that you started under this token."""

    token: int


@message("model.done")
class Done(Message):
    """work -> creature: it is done."""

    token: int
