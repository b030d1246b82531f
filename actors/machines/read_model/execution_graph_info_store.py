"""The read models of all running jobs, and of the last ended jobs (Flink's ExecutionGraphInfoStore).

Folds the messages to listeners of jobs, and answers queries. The actor of the same name passes its messages to this
class, and readers of traces pass that actor's recorded messages.
"""

from __future__ import annotations

from flykka.actors.machines.read_model.job_read_model import JobReadModel
from flykka.messages.control.job import JobFound, JobNotFound, JobStatus
from flykka.messages.control.rescaling import RequestRescales
from flykka.messages.monitoring import job_details
from flykka.messages.wire.ids import JobId
from flykka.messages.wire.message import Message

JOB_STORE_CAPACITY = 100
"""The number of ended jobs that are retained (Flink's jobstore.max-capacity)."""


class ExecutionGraphInfoStore:
    """The models by job id, in the order of submission. The last `capacity` ended jobs are retained."""

    def __init__(self, capacity: int = JOB_STORE_CAPACITY) -> None:
        self._capacity = capacity
        self.jobs: dict[JobId, JobReadModel] = {}
        self._ended: dict[JobId, None] = {}
        """The ended jobs, ordered by end time."""

    def on_message(self, message: Message, now: int) -> job_details.ArchivedJob | None:
        """Apply a message about a job. Ignored if the job is not tracked.

        Returns the archive of a job when its result is reported, if the job has ended here. The process that ends a
        suspended job writes its archive, because it has more information.
        """
        if isinstance(message, job_details.TrackJob):
            self._track(message, now)
            return None
        model = self.jobs.get(getattr(message, "job_id", JobId("")))
        if model is None:
            return None
        is_over = model.has_result or model.status is JobStatus.SUSPENDED
        model.on_message(message, now)
        if model.ended_ms is not None and model.job_id not in self._ended:
            self._ended[model.job_id] = None
            while len(self._ended) > self._capacity:
                oldest = next(iter(self._ended))
                del self._ended[oldest], self.jobs[oldest]
        return model.archived(now) if model.has_result and not is_over and model.archive_directory else None

    def overview(self, now: int) -> job_details.JobsOverview:
        return job_details.JobsOverview(jobs=tuple(model.overview(now) for model in self.jobs.values()))

    def answer(self, request: job_details.JobInfoRequest, now: int) -> Message:
        model = self.jobs.get(request.job_id)
        match request:
            case _ if model is None:
                return JobNotFound(job_id=request.job_id)
            case job_details.RequestJobDetails(checkpoints=checkpoints):
                return model.details(now, checkpoints)
            case job_details.RequestJobGraph(job_id=job_id):
                return JobFound(job_id=job_id, job_graph=model.job_graph)
            case job_details.RequestJobVertexDetails(vertex_id=vertex_id):
                return model.subtasks(vertex_id, now)
            case job_details.RequestCheckpointStats(job_id=job_id):
                return model.checkpoints.snapshot(job_id)
            case job_details.RequestCheckpointDetails(job_id=job_id, checkpoint_id=checkpoint_id):
                return model.checkpoints.details(job_id, checkpoint_id)
            case RequestRescales(job_id=job_id):
                return model.rescales.snapshot(job_id)

    def _track(self, message: job_details.TrackJob, now: int) -> None:
        job_id = message.job_graph.job_id
        model = self.jobs.get(job_id)
        if model is not None and model.ended_ms is None and model.submitted.vertices == message.job_graph.vertices:
            model.on_new_job_master(now)
            return
        # The job is new, or its model replaces that of another job that was submitted earlier with this id.
        self.jobs.pop(job_id, None)
        self._ended.pop(job_id, None)
        self.jobs[job_id] = JobReadModel(message.job_graph)
