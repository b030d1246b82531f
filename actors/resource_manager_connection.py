"""The connection of a TaskManager or JobMaster to the ResourceManager (Flink's RegisteredRpcConnection).

It registers, and goes on registering until it is acknowledged. When the ResourceManager is lost, another one will live
at the same path, so the path is where it is looked for. What the former one still says is dropped with its session.
"""

from __future__ import annotations

from collections.abc import Callable

from flykka.messages.control.registration import RegistrationDue
from flykka.messages.wire.ids import LeaderSessionId
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref, is_former
from flykka.runtime.context import ActorContext
from flykka.runtime.leader_session import Gateway

RETRY_MS = 200
"""Milliseconds between two attempts to find a ResourceManager."""


class ResourceManagerConnection:
    """Used in the turns of one actor only, which hands it its `RegistrationDue`."""

    def __init__(self, context: ActorContext, resource_manager: Ref, introduce: Callable[[], Message]) -> None:
        """`introduce` makes the message to register with."""
        self._context = context
        self._candidate = resource_manager
        self._introduce = introduce
        self._registered_at: Gateway | None = None

    def is_to(self, ref: Ref | None) -> bool:
        """True if `ref` is the ResourceManager that has acknowledged the registration."""
        return self._registered_at is not None and self._registered_at.ref == ref

    def is_with(self, ref: Ref | None) -> bool:
        """True if `ref` is the ResourceManager that was asked last, or has acknowledged."""
        return self._candidate == ref

    def has_changed_to(self, leader: Ref) -> bool:
        """True if `leader`, which says so of itself, has taken the place of the known one."""
        if is_former(leader, self._candidate):
            self._context.reject("another ResourceManager leads")
            return False
        return not self.is_to(leader)

    def seek(self) -> None:
        """Register at the present leader; messages of the former one no longer count."""
        if self._registered_at is not None:
            self._context.unwatch(self._registered_at.ref)
            self._context.revoke_session(self._registered_at.leader_session_id)
            self._registered_at = None
        self._context.timers.start_fixed_delay("register", RETRY_MS, RegistrationDue())
        self.register()

    def register(self) -> None:
        found = self._context.actor_selection(self._candidate.path).resolve_one()
        if found is not None:
            self._candidate = found
            found.tell(self._introduce())

    def acknowledge(self, session: LeaderSessionId) -> bool:
        """The sender has acknowledged the registration; False, and a dead letter, where it was not asked."""
        if self._context.sender != self._candidate:
            self._context.reject("another ResourceManager leads")
            return False
        if self._registered_at is None:
            self._context.timers.cancel("register")
            self._context.accept_session(session)
            self._context.watch(self._candidate)
            self._registered_at = Gateway(self._candidate, session)
        return True

    def tell(self, message: Message) -> None:
        """Say something under the session of the registration.

        While there is none nothing is lost: a report of the slots, or what is waited for, comes with the next one.
        """
        if self._registered_at is not None:
            self._registered_at.tell(message)

    def close(self) -> None:
        self._context.timers.cancel("register")
