"""The actor that answers queries about jobs and archives them. It outlives the JobManagers and the jobs.

Only this actor aggregates the messages about a running job: clients, consoles, notebooks, `why()` and simulations query
it. Commands on traces build the same models from recorded messages.
"""

from __future__ import annotations

import logging
import platform
from dataclasses import replace

from flykka.actors.checkpoint_storage.storage import CheckpointStorage
from flykka.actors.machines.read_model.execution_graph_info_store import JOB_STORE_CAPACITY, ExecutionGraphInfoStore
from flykka.messages.monitoring import job_details
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.messages.wire.tags import trace_tag
from flykka.runtime.actor import Actor
from flykka.runtime.context import ActorContext
from flykka.runtime.errors import AskTimeoutError, serialized
from flykka.runtime.patterns.coordinated_shutdown import BEFORE_ACTOR_SYSTEM_TERMINATE
from flykka.runtime.props import Props
from flykka.runtime.system import ActorSystem

_log = logging.getLogger(__name__)

INFO_STORE = "execution-graph-info-store"
INFO_STORE_PATH = f"/user/{INFO_STORE}"

ARCHIVING_S = 10
"""Maximum seconds for which a cluster's shutdown waits until archives are written."""


@trace_tag("actor.execution_graph_info_store")
class ExecutionGraphInfoStoreActor(Actor):
    """The actor `/user/execution-graph-info-store`, one per system: the first listener of every JobMaster."""

    def __init__(self, capacity: int = JOB_STORE_CAPACITY) -> None:
        self.store = ExecutionGraphInfoStore(capacity)
        self._archiving = 0
        self._awaited_by: list[Ref] = []

    def handle_message(self, message: Message) -> None:
        now = self.context.now()
        match message:
            case job_details.RequestJobsOverview(reply_to=reply_to):
                reply_to.tell(self.store.overview(now))
            case _ if isinstance(message, job_details.JobInfoRequest):
                message.reply_to.tell(self.store.answer(message, now))
            case job_details.ArchiveEnded():
                self._on_archive_ended(message)
            case job_details.AwaitArchives(reply_to=reply_to):
                self._awaited_by.append(reply_to)
                self._answer_when_written()
            case _:
                if (archived := self.store.on_message(message, now)) is not None:
                    self._archive(archived)

    def _archive(self, archived: job_details.ArchivedJob) -> None:
        job_id, settings = archived.details.job_id, archived.job_graph.checkpointing
        directory = settings.archive_directory
        assert directory is not None, f"job {job_id} has no archive directory"
        storage = CheckpointStorage(directory, settings.permissions, fsync=settings.fsync)

        # A function, not a partial, because a recorder records the arguments of a partial.
        def write_archive() -> None:
            storage.write_archive(replace(archived, environment=process_environment()))

        self._archiving += 1
        self.context.pipe_to_self(
            write_archive,
            lambda _: job_details.ArchiveEnded(job_id=job_id, directory=directory),
            lambda error: job_details.ArchiveEnded(job_id=job_id, directory=directory, cause=serialized(error)),
        )

    def _on_archive_ended(self, message: job_details.ArchiveEnded) -> None:
        self._archiving -= 1
        if message.cause is not None:
            why = f"{message.cause.type_name}: {message.cause.message}"
            _log.warning("job %s is not archived in %r: %s", message.job_id, message.directory, why)
        self._answer_when_written()

    def _answer_when_written(self) -> None:
        if not self._archiving:
            for ref in self._awaited_by:
                ref.tell(job_details.ArchivesWritten())
            self._awaited_by.clear()


def execution_graph_info_store(context: ActorContext, capacity: int) -> Ref:
    refs = context.actor_selection(f"../{INFO_STORE}").resolve()
    return refs[0] if refs else context.spawn_top_level(Props(ExecutionGraphInfoStoreActor, capacity), INFO_STORE)


def await_archives_at_shutdown(system: ActorSystem) -> None:
    """Let the system's shutdown wait, for a few seconds at most, until pending archives are written."""

    def archives() -> None:
        store = system.find(INFO_STORE_PATH)
        if store is None:
            return
        try:
            store.ask(lambda me: job_details.AwaitArchives(reply_to=me), timeout=ARCHIVING_S)
        except AskTimeoutError:
            _log.warning("archives of jobs were not written within %d s and are abandoned", ARCHIVING_S)

    system.coordinated_shutdown.add_task(
        BEFORE_ACTOR_SYSTEM_TERMINATE, "archives of jobs", archives, timeout=f"{ARCHIVING_S + 2}s"
    )


def process_environment() -> job_details.ProcessEnvironment:
    """Return Python's version, in place of the JVM's, and the machine's architecture."""
    return job_details.ProcessEnvironment(version=f"Python {platform.python_version()}", arch=platform.machine())
