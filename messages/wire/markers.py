"""Bases by which a message says something about itself."""

from __future__ import annotations

from flykka.messages.wire.message import Message


class ControlMessage(Message):
    """Overtakes all other messages in a `ControlAwareMailbox`; anywhere else it is like any other (Akka's)."""

    __slots__ = ()


class NotInfluenceReceiveTimeout(Message):
    """Does not count against a receive timeout: who gets nothing else is idle (Akka's)."""

    __slots__ = ()
