"""The state that the parts of a coordinator share: the job, its attempts, and its checkpoints."""

from __future__ import annotations

from flykka.actors.machines.checkpoint.completed_store import CompletedCheckpointStore
from flykka.actors.machines.checkpoint.failure_manager import CheckpointFailureManager
from flykka.actors.machines.checkpoint.pending import CoordinatedJob, PendingCheckpoints
from flykka.actors.machines.checkpoint.plan import CheckpointPlanCalculator
from flykka.actors.machines.checkpoint.properties import CheckpointProperties, for_checkpoint
from flykka.actors.machines.checkpoint.request_decider import CheckpointLoad
from flykka.messages.graph.job_graph import CheckpointingSettings


class CoordinatorState:
    """State of one coordinator, made by it and used by its parts alone."""

    def __init__(self, job: CoordinatedJob, settings: CheckpointingSettings) -> None:
        self.job = job
        self.settings = settings
        self.tasks = CheckpointPlanCalculator()
        self.pendings = PendingCheckpoints()
        self.completed = CompletedCheckpointStore(
            job.job_id, settings.retained, for_checkpoint(settings.retention), settings.max_concurrent_deletions
        )
        self.failures = CheckpointFailureManager(settings.tolerable_failures, settings.tolerable_by_reason)

    def retains(self, properties: CheckpointProperties) -> bool:
        """True if the job goes back to such a checkpoint: not to a savepoint that it goes on without."""
        return not properties.is_savepoint or properties.is_final

    @property
    def load(self) -> CheckpointLoad:
        """The load beside a request that is just being triggered."""
        return CheckpointLoad(pending=len(self.pendings), cleaning=self.completed.disposals)
