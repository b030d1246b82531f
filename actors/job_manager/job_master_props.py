"""Props of the JobMaster of a job, the first one and its successors."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from flykka.actors.checkpoint_storage.owned_storage import OwnedCheckpointStorage
from flykka.actors.data_plane import DataPlane
from flykka.actors.high_availability.services import LeaderStore
from flykka.actors.job_manager.managed_job import ManagedJob
from flykka.actors.job_master.actor import JobMaster
from flykka.messages.control.job_control import JobGraphAccepted
from flykka.messages.wire.ref import Ref
from flykka.runtime.props import Props

ATTEMPTS_PER_START = 1_000_000
"""Attempts of a subtask that one JobMaster may have made: the next one numbers its own from there on."""


def job_master_props(
    job: ManagedJob,
    resource_manager: Ref,
    data_plane: DataPlane,
    store: LeaderStore,
    accepted: JobGraphAccepted,
) -> Props:
    """The JobMaster that is to run the job now, under the session of this store."""
    submitted = job.submitted
    job_graph = replace(submitted.job_graph, first_attempt_number=submitted.starts * ATTEMPTS_PER_START)
    return Props(
        JobMaster,
        job_graph,
        resource_manager,
        data_plane,
        OwnedCheckpointStorage(job_graph.checkpointing, partial(data_plane.confirm_owner, job_graph.job_id)),
        listeners=job.listeners,
        master_hooks=accepted.master_hooks,
        labels_failures=accepted.labels_failures,
        restore_path=submitted.restore_path,
        allow_non_restored_state=submitted.allow_non_restored_state,
        store=store,
        info_store=job.info_store,
        resource_requirements=submitted.resource_requirements,
    )
