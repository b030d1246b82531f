"""The part of a JobMaster that hands a checkpoint out to those who start from it: attempts and sources.

With all of the job its sources go back to the checkpoint as well, also where the tasks that had asked failed before
they were answered: those ask again, each for itself, and sources that had never begun would have nothing for them. With
a part of the job only those readers do that restart: what they had read beyond the checkpoint is handed out again
(Flink's SourceCoordinator.subtaskReset).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from flykka.actors.checkpoint_storage.verification import without_digests
from flykka.actors.errors import RestoreError, described
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
        _log.warning("job %s has APPROXIMATE local recovery: each failure loses rows for good", job_graph.job_id)


def warn_of_loss(job_graph: JobGraph, restarted: Sequence[str]) -> None:
    is_part = 0 < len(restarted) < sum(vertex.parallelism for vertex in job_graph.vertices)
    if is_part and recovers_approximately(job_graph):
        _log.warning(
            "job %s LOSES ROWS (approximate local recovery): those on their way to %s, and those that these have taken"
            " in since the last checkpoint; all other tasks run on",
            job_graph.job_id,
            ", ".join(restarted),
        )


class StateRestorer:
    """Used in the turns of one JobMaster only."""

    def __init__(
        self, graph: ExecutionGraph, sources: OperatorCoordinatorHandler, *, allow_non_restored_state: bool
    ) -> None:
        self._graph = graph
        self._sources = sources
        self._allow_non_restored_state = allow_non_restored_state

    def on_message(
        self, message: RestoreState | RestoreStateFailed
    ) -> Sequence[RestoreStateReady | GlobalFailureReported]:
        """The event for the ExecutionGraph; None where the requesters are over, for others have asked again."""
        tasks = self._graph.restoring(message.version)
        if tasks is None:
            return ()
        if isinstance(message, RestoreStateFailed):
            return [_hopeless(message.cause)]
        checkpoint = message.checkpoint
        try:
            assigned = self._assigned(message)
            checkpoint_id = checkpoint.checkpoint_id if checkpoint else None
            if self._graph.restores_all(message.version):
                self._sources.reset(message.version, checkpoint_id, assigned.coordinators)
            else:
                self._sources.reset_tasks(tasks, checkpoint_id, assigned.coordinators)
        except RestoreError as misfit:
            return [_hopeless(described(misfit))]
        if assigned.non_restored:
            gone = ", ".join(assigned.non_restored)
            job_id = self._graph.job_graph.job_id
            _log.info("job %s: skipped checkpoint state of operators that it does not have: %s", job_id, gone)
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
                "job %s: %d files of checkpoint %d have no digests, as an older flykka has written them: they are read"
                " without being verified",
                self._graph.job_graph.job_id,
                number,
                checkpoint.checkpoint_id,
            )

    def _assigned(self, message: RestoreState) -> StateAssignment:
        if message.checkpoint is None:
            return StateAssignment()
        vertices = self._graph.job_graph.vertices
        return assign(message.checkpoint, vertices, allow_non_restored_state=self._allow_non_restored_state)


def _hopeless(cause: SerializedThrowable) -> GlobalFailureReported:
    """The checkpoint does not change, and so neither does what is wrong with it."""
    return GlobalFailureReported(cause=replace(cause, suppress_restarts=True))
