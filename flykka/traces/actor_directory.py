"""The actors in a cluster's trace: the type of each actor, and the attempt that a task runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

from flykka.messages.kernel.leader_session import LeaderSessionMessage
from flykka.messages.wire.message import Value
from flykka.messages.wire.schemas import TAG_KEY
from flykka.runtime.trace.effects import Spawn, Undecoded
from flykka.runtime.trace.records import Record, Turn
from flykka.runtime.trace.text import wire_fields
from flykka.views.text.turns import ids_cut_short


class Facts:
    """A message, or a value within a message. The fields of an unknown message are in wire format."""

    __slots__ = ("_source", "name", "tag")

    def __init__(self, source: Value | Mapping[str, Any]) -> None:
        self._source = source
        if isinstance(source, Value):
            self.tag, self.name = source.wire_tag, type(source).__name__
        else:
            self.tag = self.name = str(source.get(TAG_KEY, "?"))

    def get(self, field: str) -> Any:
        return self._source.get(field) if isinstance(self._source, Mapping) else getattr(self._source, field, None)

    def part(self, field: str) -> Facts | None:
        value = self.get(field)
        return Facts(value) if isinstance(value, Value | Mapping) else None


def facts_of(message: Value | Undecoded | None) -> Facts | None:
    """Return the facts of a message without the envelope of its leader session, or None if it is unreadable."""
    match message:
        case LeaderSessionMessage(message=content):
            return Facts(content)
        case Undecoded():
            return _unpacked(message)
        case None:
            return None
        case _:
            return Facts(message)


def _unpacked(message: Undecoded) -> Facts | None:
    fields = wire_fields(message)
    if fields.get(TAG_KEY) == LeaderSessionMessage.wire_tag and isinstance(fields.get("message"), dict):
        return Facts(fields["message"])
    return Facts(fields) if fields else None


_TASK_MESSAGES = ("checkpoint.trigger", "checkpoint.notify_complete", "checkpoint.notify_aborted", "task.cancel")
_ATTEMPT_PARTS = 3
"""The number of components after the job id: vertex, subtask, attempt number."""


class ActorKind(StrEnum):
    JOB_MANAGER = "JobManager"
    JOB_MASTER = "JobMaster"
    COORDINATOR = "CheckpointCoordinator"
    TASK = "Task"
    BRIDGE = "bridge"
    OTHER = "other"


_ONE_EACH = (ActorKind.JOB_MANAGER, ActorKind.JOB_MASTER, ActorKind.COORDINATOR)


@lru_cache(maxsize=1 << 16)
def kind_of(path: str) -> ActorKind:
    match path.split("/")[2:]:
        case ["job-manager"]:
            return ActorKind.JOB_MANAGER
        case ["job-manager", _]:
            return ActorKind.JOB_MASTER
        case ["job-manager", _, name]:
            return ActorKind.COORDINATOR if name == "checkpoint-coordinator" else ActorKind.OTHER
        case [_, _]:
            return ActorKind.TASK
        case [_, _, "bridge"]:
            return ActorKind.BRIDGE
        case _:
            return ActorKind.OTHER


def job_of(attempt: str) -> str:
    return attempt.rsplit("_", _ATTEMPT_PARTS)[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """An execution attempt. `name` contains the task name and subtask number, if the trace contains them."""

    attempt: str
    path: str | None
    name: str


class ActorDirectory:
    """Learns from records, in order, which task runs which attempt."""

    def __init__(self) -> None:
        self.attempts: dict[str, Attempt] = {}
        self._at: dict[str, str] = {}

    def learn(self, record: Record) -> None:
        if not isinstance(record, Turn):
            return
        facts = facts_of(record.message)
        if facts is None:
            return
        path = record.recipient.path
        if facts.tag == "task.submit":
            self._add_deployment(record, facts)
        elif facts.tag in _TASK_MESSAGES and path not in self._at and kind_of(path) is ActorKind.TASK:
            # A flight recorder's records may begin after the deployment.
            self._enter(facts.get("attempt"), path, _last_part(path))

    def attempt_at(self, path: str) -> Attempt | None:
        """Return the attempt of a task, or of the parent task of a bridge."""
        attempt = self._at.get(path.removesuffix("/bridge"))
        return None if attempt is None else self.attempts[attempt]

    def name_of(self, path: str) -> str:
        attempt, kind = self.attempt_at(path), kind_of(path)
        if attempt is not None:
            return attempt.name
        return kind if kind in _ONE_EACH else _last_part(path)

    def name_of_attempt(self, attempt: str) -> str:
        return self.attempts[attempt].name if attempt in self.attempts else attempt

    def job_at(self, path: str) -> str | None:
        attempt = self.attempt_at(path)
        if attempt is not None:
            return job_of(attempt.attempt)
        parts = path.split("/")
        return parts[3].removeprefix("job-") if parts[2:3] == ["job-manager"] and len(parts) > 3 else None

    def _add_deployment(self, turn: Turn, facts: Facts) -> None:
        descriptor = facts.part("descriptor")
        vertex = None if descriptor is None else descriptor.part("vertex")
        if descriptor is None or vertex is None:
            return
        spawned = next((effect.ref.path for effect in turn.effects if isinstance(effect, Spawn)), None)
        name = f"{vertex.get('name')} ({descriptor.get('subtask') + 1}/{vertex.get('parallelism')})"
        number = descriptor.get("attempt_number")
        self._enter(descriptor.get("attempt"), spawned, f"{name} #{number}" if number else name)

    def _enter(self, attempt: str, path: str | None, name: str) -> None:
        self.attempts[attempt] = Attempt(attempt=attempt, path=path, name=name)
        if path is not None:
            self._at[path] = attempt


def _last_part(path: str) -> str:
    return ids_cut_short(path.rpartition("/")[2] or path)
