"""The part of a JobMaster that distributes the state of a checkpoint to restarting attempts and sources.

If the whole job restarts, its sources are reset to the checkpoint even if the tasks that requested the state have
failed meanwhile: new attempts request the state again, and sources that were never started have no splits for them. If
only some tasks restart, only their readers are reset: splits that they received after the checkpoint are assigned again
(Flink's SourceCoordinator.subtaskReset).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from flykka.actors.checkpoint_storage.verification import without_digests
from flykka.actors.errors import RestoreError, serialize_error
from flykka.actors.job_master.operator_coordinator_handler import OperatorCoordinatorHandler
from flykka.actors.machines.graph.events import GlobalFailureReported, RestoreStateReady
from flykka.actors.machines.graph.execution_graph import ExecutionGraph
from flykka.actors.machines.job_graph.validation import recovers_approximately
from flykka.actors.machines.state.assignment import StateAssignment, assign
from flykka.messages.checkpointing.checkpoint import CompletedCheckpoint
from flykka.messages.control.checkpoint_coordination import RestoreState, RestoreStateFailed
from flykka.messages.graph.job_graph import JobGraph
from flykka.messages.wire.failure import SerializedThrowable

_log = logging.getLogger(__name__)


def warn_of_approximation(job_graph: JobGraph) -> None:
    if recovers_approximately(job_graph):
        _log.warning("job %s has APPROXIMATE local recovery: each failure loses rows permanently", job_graph.job_id)


def warn_of_loss(job_graph: JobGraph, restarted: Sequence[str]) -> None:
    is_part = 0 < len(restarted) < sum(vertex.parallelism for vertex in job_graph.vertices)
    if is_part and recovers_approximately(job_graph):
        _log.warning(
            "job %s LOSES ROWS (approximate local recovery): rows in flight to %s, and rows that these tasks"
            " have processed since the last checkpoint; all other tasks keep running",
            job_graph.job_id,
            ", ".join(restarted),
        )


class StateRestorer:
    def __init__(
        self, graph: ExecutionGraph, sources: OperatorCoordinatorHandler, *, allow_non_restored_state: bool
    ) -> None:
        self._graph = graph
        self._sources = sources
        self._allow_non_restored_state = allow_non_restored_state

    def on_message(
        self, message: RestoreState | RestoreStateFailed
    ) -> Sequence[RestoreStateReady | GlobalFailureReported]:
        """Return events for the ExecutionGraph, or none if the requesting tasks have ended. New tasks request the state
        again.
        """
        tasks = self._graph.restoring(message.version)
        if tasks is None:
            return ()
        if isinstance(message, RestoreStateFailed):
            return [_unrecoverable(message.cause)]
        checkpoint = message.checkpoint
        try:
            assigned = self._assigned(message)
            checkpoint_id = checkpoint.checkpoint_id if checkpoint else None
            if self._graph.restores_all(message.version):
                self._sources.reset(message.version, checkpoint_id, assigned.coordinators)
            else:
                self._sources.reset_tasks(tasks, checkpoint_id, assigned.coordinators)
        except RestoreError as error:
            return [_unrecoverable(serialize_error(error))]
        if assigned.non_restored:
            missing = ", ".join(assigned.non_restored)
            job_id = self._graph.job_graph.job_id
            _log.info(
                "job %s: skipped the checkpoint's state of operators that the job does not have: %s", job_id, missing
            )
        self._log_unverified(checkpoint)
        ready = RestoreStateReady(
            version=message.version,
            checkpoint_id=checkpoint_id,
            states=assigned.states,
            max_parallelism=assigned.max_parallelism,
        )
        return [ready]

    def _log_unverified(self, checkpoint: CompletedCheckpoint | None) -> None:
        number = 0 if checkpoint is None else without_digests(checkpoint)
        if checkpoint is not None and number:
            _log.info(
                "job %s: %d files of checkpoint %d were written by an older flykka, without digests: they are not"
                " verified when they are read",
                self._graph.job_graph.job_id,
                number,
                checkpoint.checkpoint_id,
            )

    def _assigned(self, message: RestoreState) -> StateAssignment:
        if message.checkpoint is None:
            return StateAssignment()
        vertices = self._graph.job_graph.vertices
        return assign(message.checkpoint, vertices, allow_non_restored_state=self._allow_non_restored_state)


def _unrecoverable(cause: SerializedThrowable) -> GlobalFailureReported:
    """Return a failure without a restart, because another attempt would read the same checkpoint."""
    return GlobalFailureReported(cause=replace(cause, suppress_restarts=True))
