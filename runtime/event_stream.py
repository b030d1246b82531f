"""Publish and subscribe within a system, by event class."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flykka.messages.wire.ref import Ref
from flykka.messages.wire.tags import name_in_trace
from flykka.runtime.ref import ActorRef
from flykka.runtime.turn import outside_turn, record_effect

if TYPE_CHECKING:
    from flykka.messages.wire.message import Message

Subscriber = Ref | Callable[[Any], object]

logger = logging.getLogger("flykka.runtime")


class EventStream:
    """Delivers events to actors as messages, and to functions on the publishing thread, which must be short."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._subscriptions: tuple[tuple[Subscriber, tuple[type, ...]], ...] = ()

    def subscribe(self, subscriber: Subscriber, *types: type) -> None:
        """Deliver to `subscriber` every event that is an instance of one of `types`, once each.

        The types are added to earlier subscriptions. An actor's subscription ends with the actor.
        """
        if not types:
            raise ValueError("a subscription needs at least one class of events")
        record_effect("subscribe", _name(subscriber), tuple(name_in_trace(each) for each in types))
        with self._lock:
            living = [(each, classes) for each, classes in self._subscriptions if not _has_ended(each)]
            for place, (each, classes) in enumerate(living):
                if each == subscriber:
                    living[place] = (each, tuple(dict.fromkeys((*classes, *types))))
                    break
            else:
                living.append((subscriber, types))
            self._subscriptions = tuple(living)

    def unsubscribe(self, subscriber: Subscriber, *types: type) -> None:
        """End the subscription to `types`, or to all types if none are given."""
        record_effect("unsubscribe", _name(subscriber), tuple(name_in_trace(each) for each in types))
        with self._lock:
            remaining = [
                (each, tuple(cls for cls in classes if types and cls not in types) if each == subscriber else classes)
                for each, classes in self._subscriptions
            ]
            self._subscriptions = tuple(entry for entry in remaining if entry[1])

    def publish(self, event: Message) -> None:
        """Deliver `event` to its subscribers in order of subscription. If one fails, the others still get it."""
        for subscriber, types in self._subscriptions:
            if not isinstance(event, types) or _has_ended(subscriber):
                continue
            with outside_turn():
                try:
                    if isinstance(subscriber, Ref):
                        subscriber.tell(event)
                    else:
                        subscriber(event)
                except BaseException:
                    logger.exception("subscriber %r failed on %r", subscriber, event)


def _name(subscriber: Subscriber) -> str:
    return str(subscriber) if isinstance(subscriber, Ref) else getattr(subscriber, "__name__", "a callable")


def _has_ended(subscriber: Subscriber) -> bool:
    return isinstance(subscriber, ActorRef) and subscriber.actor_inbox.closed
