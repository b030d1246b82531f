"""The actor that answers for jobs: beside the JobManagers, so that it outlives them and the jobs."""

from __future__ import annotations

from flykka.actors.machines.read_model.execution_graph_info_store import JOB_STORE_CAPACITY, ExecutionGraphInfoStore
from flykka.messages.monitoring.job_details import JobInfoRequest, RequestJobsOverview
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.runtime.actor import Actor
from flykka.runtime.context import ActorContext
from flykka.runtime.props import Props

INFO_STORE = "execution-graph-info-store"
INFO_STORE_PATH = f"/user/{INFO_STORE}"


class ExecutionGraphInfoStoreActor(Actor):
    """The actor `/user/execution-graph-info-store`, one per system: the first listener of every JobMaster."""

    def __init__(self, capacity: int = JOB_STORE_CAPACITY) -> None:
        self.store = ExecutionGraphInfoStore(capacity)

    def handle_message(self, message: Message) -> None:
        """Answer a question, or read what is told of a job."""
        now = self.context.now()
        match message:
            case RequestJobsOverview(reply_to=reply_to):
                reply_to.tell(self.store.overview(now))
            case _ if isinstance(message, JobInfoRequest):
                message.reply_to.tell(self.store.answer(message, now))
            case _:
                self.store.on_message(message, now)


def execution_graph_info_store(context: ActorContext, capacity: int) -> Ref:
    """The store that the JobManager before has used, or a new one."""
    found = context.actor_selection(f"../{INFO_STORE}").resolve()
    return found[0] if found else context.spawn_top_level(Props(ExecutionGraphInfoStoreActor, capacity), INFO_STORE)
