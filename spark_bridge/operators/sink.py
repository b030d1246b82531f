"""The operator of a sink: rows are staged, prepared for a checkpoint, and committed when it is complete."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from flykka.actors.machines.state.operator_state import elements_of, list_state
from flykka.messages.state.handles import COMMITTABLES, ExclusiveStateHandle, OperatorSubtaskState
from flykka.messages.wire.ids import OperatorId
from flykka.messages.wire.message import Value
from flykka.spark_bridge.operators.operator import Element, Operator, Output, Rows
from flykka.spark_bridge.program.sink_writer import SinkWriter, Staged
from flykka.spark_bridge.state.savepoint import HandleFiles, into_savepoint


class SinkOperator(Operator[Rows]):
    """Stages rows with `stage`. `attempt` is part of the names of files copied into savepoints.

    Before rows are published, `check_owner` raises if another process runs the job now.
    """

    def __init__(
        self,
        operator_id: OperatorId,
        writer: SinkWriter[Any],
        stage: Callable[[Rows], Staged],
        files: HandleFiles,
        attempt: str,
        check_owner: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__(operator_id)
        self._writer = writer
        self._stage = stage
        self._files = files
        self._attempt = attempt
        self._check_owner = check_owner

    @property
    def commits(self) -> bool:
        return True

    def restore(self, states: Sequence[OperatorSubtaskState]) -> None:
        self._check_owner()
        self._files.verify(handle for state in states for handle in state.exclusive)
        self._writer.restore(elements_of(states, COMMITTABLES, Value))

    def process_batch(self, element: Element[Rows]) -> Output[Rows]:
        staged = self._stage(element.rows)
        return Output(staged=staged.names, staged_rows=staged.rows)

    def prepare_commit(self, checkpoint_id: int, names: tuple[str, ...]) -> OperatorSubtaskState | None:
        pieces = self._writer.prepare_commit(checkpoint_id, names)
        if not pieces:
            return None
        return OperatorSubtaskState(operator_id=self.operator_id, operator_state=(list_state(COMMITTABLES, pieces),))

    def copied(self, prepared: OperatorSubtaskState, savepoint: str) -> OperatorSubtaskState:
        filesystem = self._files.filesystem
        folder = filesystem.qualified(f"{savepoint}/{self._attempt}-{self.operator_id}")
        pieces = into_savepoint(filesystem, elements_of([prepared], COMMITTABLES, Value), folder)
        files = self._files.seal(folder, savepoint)
        size_bytes = filesystem.bytes_below(folder)
        handles = (ExclusiveStateHandle(path=folder, size_bytes=size_bytes, files=files),) if pieces else ()
        return replace(prepared, operator_state=(list_state(COMMITTABLES, pieces),), exclusive=handles)

    def commit_checkpoint(self, checkpoint_id: int) -> tuple[str, ...]:
        self._check_owner()
        return self._writer.commit(checkpoint_id)
