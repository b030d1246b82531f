"""The work that the engine of an attempt has been given and has not answered, by its key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from flykka.actors.machines.bridge.effects import Begin, CloseChain, HoldBatches, Open, Work, key_of
from flykka.actors.machines.bridge.snapshots import Snapshot
from flykka.actors.machines.bridge.stages import Stage
from flykka.messages.tasks.bridge import WorkProgress
from flykka.messages.tasks.stage import CommitCheckpoint, WriteChannelState

Job = Snapshot | WriteChannelState | CommitCheckpoint
"""Work done in the background, one piece after the other."""
Subject = Stage | Job | Open | CloseChain | HoldBatches


@dataclass(frozen=True, slots=True, kw_only=True)
class AtWork:
    """A piece of work, and what it is a part of."""

    number: int
    work: Work
    subject: Subject
    what: str
    begun_ms: int


class WorkInHand:
    """The work that has begun. `chain_name` is the user's name of the chain, for messages."""

    def __init__(self, chain_name: str) -> None:
        self.chain_name = chain_name
        self._at_work: dict[str, AtWork] = {}
        self._begun = 0

    def __bool__(self) -> bool:
        return bool(self._at_work)

    @property
    def jobs(self) -> list[Job]:
        """The background work that has begun."""
        return [each.subject for each in self._at_work.values() if isinstance(each.subject, Job)]

    @property
    def works(self) -> dict[str, Work]:
        """The work that has begun, by key."""
        return {key: each.work for key, each in self._at_work.items()}

    def begin_work(self, work: Work, subject: Subject, now: int) -> Begin:
        """Give the engine a piece of work."""
        self._begun += 1
        key, number, what = key_of(work), self._begun, self._what(subject)
        self._at_work[key] = AtWork(number=number, work=work, subject=subject, what=what, begun_ms=now)
        return Begin(key=key, number=number, work=work, what=what)

    def pop_work(self, key: str) -> AtWork | None:
        """The work of this key is answered; None where nothing waits for it."""
        return self._at_work.pop(key, None)

    def clear(self) -> None:
        """Wait for nothing any more."""
        self._at_work.clear()

    def progress(self, now: int) -> tuple[WorkProgress, ...]:
        """The work that has begun, and for how long."""
        return tuple(
            WorkProgress(piece=each.number, what=each.what, age_ms=now - each.begun_ms)
            for each in self._at_work.values()
        )

    def _what(self, subject: Subject) -> str:
        name = self.chain_name
        match subject:
            case Open():
                return "opening"
            case Stage(command=command):
                return f"stage {command.stage} of {name!r}"
            case Snapshot(command=command):
                return f"snapshot {command.checkpoint_id} of {name!r}"
            case WriteChannelState(checkpoint_id=checkpoint_id) | HoldBatches(checkpoint_id=checkpoint_id):
                return f"channel state {checkpoint_id} of {name!r}"
            case CommitCheckpoint(checkpoint_id=checkpoint_id):
                return f"committing checkpoint {checkpoint_id} of {name!r}"
            case CloseChain():
                return f"closing {name!r}"
            case _:
                assert_never(subject)
