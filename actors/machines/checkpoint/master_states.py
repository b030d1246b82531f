"""Restores the states of master hooks when a job starts from a checkpoint. Mirrors Flink's MasterHooks.

The actor runs the hooks. The checkpoint to start from is reported only after they have run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flykka.actors.machines.checkpoint.completed_store import Restore
from flykka.actors.machines.checkpoint.events import RestoreMasterHooks
from flykka.actors.machines.effects import Ignore
from flykka.messages.checkpointing.checkpoint import MasterState
from flykka.messages.control.checkpoint_coordination import (
    MasterHookRestoreFailed,
    MasterHooksRestored,
    RestoreState,
    RestoreStateFailed,
)
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import JobId

Effects = Iterator[RestoreState | RestoreStateFailed | RestoreMasterHooks | Ignore]


class MasterHookRestores:
    """The identifiers of the hooks, and the replies that wait until the hooks are restored."""

    def __init__(self, job_id: JobId, identifiers: Sequence[str]) -> None:
        self._job_id = job_id
        self.identifiers = tuple(identifiers)
        self._waiting: dict[int, Restore] = {}

    def restore(self, answer: Restore) -> Effects:
        """Restore the hooks, then reply with the checkpoint to start from. Without a checkpoint the hooks are reset."""
        checkpoint = answer.checkpoint
        states = () if checkpoint is None else checkpoint.master_states
        if not self.identifiers or (checkpoint is not None and not states):
            yield self._state(answer)
            return
        if (unmatched := self._unmatched(states)) and not answer.allow_non_restored_state:
            cause = _unmatched_states(answer, unmatched)
            yield RestoreStateFailed(job_id=self._job_id, version=answer.version, cause=cause)
            return
        self._waiting[answer.version] = answer
        by_name = {state.identifier: state for state in states}
        # Hooks with state come first, in the order of the checkpoint. The other hooks get no state.
        with_state = [name for name in by_name if name in self.identifiers]
        names = (*with_state, *(name for name in self.identifiers if name not in by_name))
        yield RestoreMasterHooks(
            version=answer.version,
            checkpoint_id=None if checkpoint is None else checkpoint.checkpoint_id,
            states=tuple((name, by_name[name].data if name in by_name else None) for name in names),
        )

    def restored(self, event: MasterHooksRestored | MasterHookRestoreFailed) -> Effects:
        answer = self._waiting.pop(event.version, None)
        if answer is None:
            yield Ignore(reason=f"no start waits for the master hooks of version {event.version}")
        elif isinstance(event, MasterHookRestoreFailed):
            yield RestoreStateFailed(job_id=self._job_id, version=event.version, cause=event.cause)
        else:
            yield self._state(answer)

    def _state(self, answer: Restore) -> RestoreState:
        return RestoreState(job_id=self._job_id, version=answer.version, checkpoint=answer.checkpoint)

    def _unmatched(self, states: Sequence[MasterState]) -> list[str]:
        return [state.identifier for state in states if state.identifier not in self.identifiers]


def _unmatched_states(answer: Restore, names: list[str]) -> SerializedThrowable:
    assert answer.checkpoint is not None
    return SerializedThrowable(
        type_name="RestoreError",
        message=(
            f"checkpoint {answer.checkpoint.checkpoint_id} holds state of the master hooks {', '.join(names)},"
            " and the job has no hooks with these names: register them, or allow state that is not restored"
        ),
    )
