"""The connection of a TaskManager or JobMaster to the ResourceManager (Flink's RegisteredRpcConnection).

The registration is repeated until it is acknowledged. A new ResourceManager has the same path as the lost one, so it is
looked up by path. Later messages of the former ResourceManager are dropped with its session.
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
    """Used in the turns of one actor only, which forwards its `RegistrationDue` messages."""

    def __init__(self, context: ActorContext, resource_manager: Ref, introduce: Callable[[], Message]) -> None:
        self._context = context
        self._candidate = resource_manager
        self._introduce = introduce
        self._registered_at: Gateway | None = None

    def is_to(self, ref: Ref | None) -> bool:
        return self._registered_at is not None and self._registered_at.ref == ref

    def is_with(self, ref: Ref | None) -> bool:
        """Return whether `ref` is the ResourceManager that was asked last, or has acknowledged."""
        return self._candidate == ref

    def has_changed_to(self, leader: Ref) -> bool:
        """Return whether `leader`, which claims to lead, replaces the known ResourceManager."""
        if is_former(leader, self._candidate):
            self._context.reject("another ResourceManager leads")
            return False
        return not self.is_to(leader)

    def seek(self) -> None:
        if self._registered_at is not None:
            self._context.unwatch(self._registered_at.ref)
            self._context.revoke_session(self._registered_at.leader_session_id)
            self._registered_at = None
        self._context.timers.start_fixed_delay("register", RETRY_MS, RegistrationDue())
        self.register()

    def register(self) -> None:
        ref = self._context.actor_selection(self._candidate.path).resolve_one()
        if ref is not None:
            self._candidate = ref
            ref.tell(self._introduce())

    def acknowledge(self, session: LeaderSessionId) -> bool:
        """Handle an acknowledgement. Rejects it and returns False if it comes from another ResourceManager."""
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
        """Drop the message if there is no session. The next registration reports the slots, or repeats the requests."""
        if self._registered_at is not None:
            self._registered_at.tell(message)

    def close(self) -> None:
        self._context.timers.cancel("register")
