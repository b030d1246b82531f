"""Publish and subscribe within a system, by the class of the event."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flykka.messages.ref import Ref
from flykka.runtime.turn import outside_turn

if TYPE_CHECKING:
    from flykka.messages.message import Message

Subscriber = Ref | Callable[[Any], object]

logger = logging.getLogger("flykka.runtime")


class EventStream:
    """Actors get events told; functions are called in the publishing thread and must be short."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._subscriptions: tuple[tuple[Subscriber, tuple[type, ...]], ...] = ()

    def subscribe(self, subscriber: Subscriber, *types: type) -> None:
        """Give `subscriber` every event that is an instance of one of `types`, from now on."""
        if not types:
            raise ValueError("a subscription names the classes of its events")
        with self._lock:
            self._subscriptions = (*self._subscriptions, (subscriber, types))

    def unsubscribe(self, subscriber: Subscriber) -> None:
        """Give it no more."""
        with self._lock:
            self._subscriptions = tuple(entry for entry in self._subscriptions if entry[0] != subscriber)

    def publish(self, event: Message) -> None:
        """Give `event` to its subscribers, in the order of their subscription; one that fails harms no other."""
        for subscriber, types in self._subscriptions:
            if not isinstance(event, types):
                continue
            with outside_turn():
                try:
                    if isinstance(subscriber, Ref):
                        subscriber.tell(event)
                    else:
                        subscriber(event)
                except BaseException:
                    logger.exception("subscriber %r failed on %r", subscriber, event)
