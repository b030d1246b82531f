"""Area 01, component `store` with high availability: checkpoints recovered from the leader's store."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flykka.actors.machines.checkpoint.completed_store import CompletedCheckpointStore
from flykka.actors.machines.checkpoint.events import DeleteJob, Dispose
from flykka.messages.control.high_availability import CheckpointPointer
from flykka.messages.control.job import JobStatus
from flykka.messages.wire.ids import JobId
from tests.actors.leading import new_checkpoints
from tests.actors.machines.checkpoint.coordinating import JOB, completed_checkpoint
from tests.conformance.case_files import UnknownWordError
from tests.conformance.checkpoint_coordinator.words import NEVER_RETAINED


class HaStore:
    """The checkpoints of one job and their pointers. Each recovery makes the next coordinator their owner."""

    def __init__(self, retain: int) -> None:
        self._retain = retain
        self._pointers = new_checkpoints(JobId("job"))
        self._owners = 0
        self._discarded: list[int] = []
        self._last_added: int | None = None
        self._recover()

    def do(self, step: list[Any]) -> None:
        *words, last = step
        wants = last if isinstance(last, dict) else {}
        match words if isinstance(last, dict) else step:
            case ["add", int(checkpoint_id)]:
                self._last_added = checkpoint_id
                checkpoint = completed_checkpoint(checkpoint_id)
                self._pointers.add(self._owner, CheckpointPointer(checkpoint_id=checkpoint_id, path=checkpoint.path))
                self._perform(self._store.retain(checkpoint, needed_from=checkpoint_id))
                self._perform(self._store.disposal_ended() if self._store.disposals else ())
            case ["shutdown", str(status)]:
                self._store.close(JobStatus(status))
                self._perform(self._store.resume_waiting())
            case ["recover"]:
                self._recover()
            case _:
                raise UnknownWordError(str(step))
        self.check(wants)

    def check(self, wanted: dict[str, Any]) -> None:
        for word, value in wanted.items():
            assert self._shows(word) == value, word

    @property
    def _owner(self) -> str:
        return f"coordinator {self._owners}"

    def _recover(self) -> None:
        self._owners += 1
        self._store = CompletedCheckpointStore(JOB, self._retain, NEVER_RETAINED)
        recovered = self._pointers.recover(self._owner, ids=0)
        self._perform(
            self._store.recover([completed_checkpoint(each.checkpoint_id) for each in recovered.completed], None)
        )

    def _perform(self, effects: Iterable[object]) -> None:
        for effect in effects:
            match effect:
                case Dispose(retained=gone):
                    self._pointers.remove(self._owner, gone)
                    self._discarded += gone
                case DeleteJob():
                    self._pointers.remove_all(self._owner)

    def _shows(self, word: str) -> Any:
        ids = [checkpoint.checkpoint_id for checkpoint in self._store]
        match word:
            case "latest":
                return ids[-1] if ids else None
            case "all":
                return ids
            case "count":
                return len(ids)
            case "discarded":
                return self._discarded
            case "external_entry":
                latest = self._pointers.latest()
                return latest is not None and latest.checkpoint_id == self._last_added
            case "external_lock":
                # An entry has no lock, because the leader owns all entries.
                return False
            case _:
                raise UnknownWordError(word)
