"""The TaskManager's actor: it registers, offers its slots, runs Tasks, and says so when one of them is lost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flykka.actors.data_plane import SplitDiscovery
from flykka.actors.task_manager import TaskManager
from flykka.messages.checkpoint import CheckpointDeclineReason, DeclineCheckpoint, TriggerCheckpoint
from flykka.messages.exchange import ErrorResponse, PartitionRequest
from flykka.messages.heartbeat import Heartbeat, HeartbeatRequest
from flykka.messages.ids import (
    AllocationId,
    ExecutionAttemptId,
    JobId,
    LeaderSessionId,
    SplitId,
    TaskManagerId,
    partition_id,
    slot_id,
)
from flykka.messages.job_graph import JobGraph, Operator
from flykka.messages.message import Message
from flykka.messages.registration import (
    AcknowledgeRegistration,
    DisconnectJobMaster,
    RefuseRegistration,
    RegisterTaskManager,
    SlotReport,
    SlotStatus,
)
from flykka.messages.slots import (
    AcceptSlots,
    AllocateSlot,
    AllocateSlotConfirmed,
    AllocateSlotRefused,
    FreeSlot,
    OfferSlots,
    SlotAvailable,
    SlotOffer,
)
from flykka.messages.source import AddSplits, FileSplit, RequestSplits
from flykka.messages.stage import BridgeClosed, BridgeOpened, CloseBridge, OpenBridge, ReadSplits, StageFinished
from flykka.messages.task import (
    CancelTask,
    ExecutionState,
    SubmitTask,
    TaskDeploymentDescriptor,
    UpdateTaskExecutionState,
)
from flykka.runtime.actor import Actor
from flykka.runtime.events import DeadLetter, UnhandledMessage
from flykka.runtime.props import Props
from flykka.runtime.ref import ActorRef
from flykka.runtime.testing.seeded import SeededSystem, seeded_system
from tests.actors.peer import Peer
from tests.actors.scheduling.descriptors import SOURCE, descriptor

HERE = TaskManagerId("task-manager-1")
JOB = JobId("job-1")
RM_SESSION = LeaderSessionId("resource-manager-session")
JM_SESSION = LeaderSessionId("job-master-session")
INTERVAL_MS = 10
TIMEOUT_MS = 50


class Bridge(Actor):
    """Opens, reads nothing out of every split, and closes."""

    def handle_message(self, message: Message) -> None:
        match message:
            case OpenBridge():
                self.context.parent.tell(BridgeOpened())
            case ReadSplits(stage=stage):
                self.context.parent.tell(StageFinished(stage=stage))
            case CloseBridge():
                self.context.parent.tell(BridgeClosed())


class NoData:
    """A data plane without data."""

    def check(self, job_graph: JobGraph) -> None:
        """Everything fits."""

    def bridge_props(self, descriptor: TaskDeploymentDescriptor) -> Props:
        return Props(Bridge)

    def split_discovery(self, job_id: JobId, operator: Operator) -> SplitDiscovery:
        raise AssertionError("splits are looked for on the JobMaster's side")

    def release_job(self, job_id: JobId) -> None:
        """Nothing is held."""


@pytest.fixture
def system() -> Iterator[SeededSystem]:
    with seeded_system(5) as system:
        yield system


class Cluster:
    """A TaskManager with two slots, and a ResourceManager and a JobMaster that the test plays."""

    def __init__(self, system: SeededSystem, kind: type[TaskManager] = TaskManager) -> None:
        self.system = system
        self.resource_manager = Peer(system, "resource-manager", RM_SESSION)
        self.job_master = Peer(system, "job-master", JM_SESSION)
        props = Props(kind, HERE, 2, self.resource_manager.ref, NoData(), registration_retry_ms=100)
        self.task_manager: ActorRef = system.spawn(props, HERE)
        system.run_until_idle()

    def acknowledge(self) -> RegisterTaskManager:
        """Register the TaskManager at the ResourceManager; how it had introduced itself."""
        registration = self.resource_manager.heard(RegisterTaskManager)[-1]
        answer = AcknowledgeRegistration(
            leader_session_id=RM_SESSION, heartbeat_interval_ms=INTERVAL_MS, heartbeat_timeout_ms=TIMEOUT_MS
        )
        self.resource_manager.say(self.task_manager, answer)
        return registration

    def let_the_resource_manager_ask_for(self, ms: int) -> None:
        """Let time pass in which the ResourceManager goes on asking for heartbeats, and nobody else."""
        for _ in range(ms // INTERVAL_MS):
            self.system.advance(INTERVAL_MS)
            request = HeartbeatRequest(origin=self.resource_manager.ref)
            self.resource_manager.say(self.task_manager, request, RM_SESSION)

    def allocate(self, allocation: str = "a", index: int = 0) -> None:
        """Give a slot to the job."""
        request = AllocateSlot(
            slot_id=slot_id(HERE, index),
            job_id=JOB,
            allocation_id=AllocationId(allocation),
            job_master=self.job_master.ref,
            job_leader_session_id=JM_SESSION,
        )
        self.resource_manager.say(self.task_manager, request, RM_SESSION)

    def say(self, message: Message, session: LeaderSessionId = JM_SESSION) -> None:
        """What the JobMaster says."""
        self.job_master.say(self.task_manager, message, session)

    def welcome(self, timeout_ms: int = TIMEOUT_MS) -> None:
        """Register the TaskManager at the JobMaster."""
        self.job_master.expect(RegisterTaskManager)
        answer = AcknowledgeRegistration(
            leader_session_id=JM_SESSION,
            job_id=JOB,
            heartbeat_interval_ms=INTERVAL_MS,
            heartbeat_timeout_ms=timeout_ms,
        )
        self.say(answer)

    def submit(self, attempt: str = "x", allocation: str = "a") -> None:
        """Deploy an attempt."""
        self.say(SubmitTask(descriptor=descriptor(attempt, allocation=allocation), job_master=self.job_master.ref))

    def tasks(self) -> list[str]:
        """The names of the living Tasks."""
        prefix = f"/user/{HERE}/"
        below = [path.removeprefix(prefix) for path in self.system.living_paths() if path.startswith(prefix)]
        return [path for path in below if "/" not in path]

    def states(self) -> list[tuple[str, ExecutionState]]:
        """The states that the JobMaster has heard of."""
        heard = self.job_master.heard(UpdateTaskExecutionState)
        return [(update.state.attempt, update.state.state) for update in heard]

    def is_alive(self) -> bool:
        """The TaskManager lives."""
        return self.task_manager.path in self.system.living_paths()


@pytest.fixture
def cluster(system: SeededSystem) -> Cluster:
    """A TaskManager that has just started."""
    return Cluster(system)


@pytest.fixture
def connected(cluster: Cluster) -> Cluster:
    """A TaskManager that has offered a slot to the JobMaster, which has taken it."""
    cluster.acknowledge()
    cluster.allocate("a")
    cluster.welcome()
    cluster.job_master.expect(OfferSlots)
    cluster.say(AcceptSlots(job_id=JOB, accepted=(AllocationId("a"),)))
    cluster.resource_manager.expect(AllocateSlotConfirmed)
    return cluster


# The ResourceManager


def test_it_introduces_itself_with_a_report_of_its_slots(cluster: Cluster) -> None:
    registration = cluster.acknowledge()

    free = tuple(SlotStatus(slot_id=slot_id(HERE, index)) for index in range(2))
    assert registration == RegisterTaskManager(
        task_manager_id=HERE, task_manager=cluster.task_manager, slot_report=SlotReport(slots=free)
    )


def test_it_registers_again_until_it_is_acknowledged(cluster: Cluster) -> None:
    cluster.system.advance(250)
    before = cluster.resource_manager.heard(RegisterTaskManager)
    cluster.system.advance(50)
    cluster.acknowledge()

    cluster.system.advance(20)

    assert len(before) == 3
    assert cluster.resource_manager.heard(RegisterTaskManager) == []


def test_a_heartbeat_carries_the_state_of_the_slots_as_it_is_now(cluster: Cluster) -> None:
    cluster.acknowledge()
    cluster.allocate("a", index=1)

    request = HeartbeatRequest(origin=cluster.resource_manager.ref)
    cluster.resource_manager.say(cluster.task_manager, request, RM_SESSION)

    heartbeat = cluster.resource_manager.expect(Heartbeat)
    held = SlotStatus(slot_id=slot_id(HERE, 1), allocation_id=AllocationId("a"), job_id=JOB)
    assert heartbeat == Heartbeat(
        task_manager_id=HERE, slot_report=SlotReport(slots=(SlotStatus(slot_id=slot_id(HERE, 0)), held))
    )


def test_when_the_resource_manager_falls_silent_it_registers_anew(cluster: Cluster) -> None:
    cluster.acknowledge()

    cluster.system.advance(TIMEOUT_MS)

    assert len(cluster.resource_manager.heard(RegisterTaskManager)) == 1


def test_when_the_resource_manager_refuses_it_it_ends(cluster: Cluster) -> None:
    cluster.resource_manager.say(cluster.task_manager, RefuseRegistration(reason="given up and replaced"))

    assert not cluster.is_alive()


def test_slots_are_given_under_the_session_of_the_resource_manager_only(cluster: Cluster) -> None:
    dropped: list[DeadLetter] = []
    cluster.system.event_stream.subscribe(dropped.append, DeadLetter)

    cluster.allocate("a")

    assert cluster.job_master.heard(RegisterTaskManager) == []
    assert [letter.recipient for letter in dropped] == [cluster.task_manager]


# Slots


def test_an_allocated_slot_is_confirmed_and_offered_to_its_job_master(cluster: Cluster) -> None:
    cluster.acknowledge()
    cluster.allocate("a")
    before_it_is_known = cluster.job_master.heard(OfferSlots)
    cluster.welcome()

    confirmation = cluster.resource_manager.expect(AllocateSlotConfirmed)
    offer = cluster.job_master.expect(OfferSlots)
    assert confirmation == AllocateSlotConfirmed(slot_id=slot_id(HERE, 0), job_id=JOB, allocation_id=AllocationId("a"))
    assert before_it_is_known == []
    assert offer == OfferSlots(
        task_manager_id=HERE, offers=(SlotOffer(allocation_id=AllocationId("a"), slot_id=slot_id(HERE, 0)),)
    )


def test_a_second_slot_is_offered_without_another_registration(connected: Cluster) -> None:
    connected.allocate("b", index=1)

    assert connected.job_master.heard(RegisterTaskManager) == []
    assert connected.job_master.expect(OfferSlots).offers[0].allocation_id == "b"


def test_the_same_allocation_changes_nothing(connected: Cluster) -> None:
    connected.allocate("a")

    assert connected.resource_manager.expect(AllocateSlotConfirmed).allocation_id == "a"
    assert connected.job_master.heard(OfferSlots) == []


def test_an_occupied_slot_is_refused(connected: Cluster) -> None:
    connected.allocate("b")

    refusal = connected.resource_manager.expect(AllocateSlotRefused)
    assert refusal == AllocateSlotRefused(
        slot_id=slot_id(HERE, 0), allocation_id=AllocationId("b"), occupied_by=AllocationId("a")
    )


def test_a_freed_slot_is_announced_to_the_resource_manager(connected: Cluster) -> None:
    connected.say(FreeSlot(allocation_id=AllocationId("a")))

    announced = connected.resource_manager.expect(SlotAvailable)
    assert announced == SlotAvailable(slot_id=slot_id(HERE, 0), allocation_id=AllocationId("a"))


def test_a_slot_that_is_not_accepted_is_announced_too(cluster: Cluster) -> None:
    cluster.acknowledge()
    cluster.allocate("a")
    cluster.welcome()

    cluster.say(AcceptSlots(job_id=JOB, accepted=()))

    assert cluster.resource_manager.expect(SlotAvailable).allocation_id == "a"


# Tasks


def test_a_submitted_attempt_runs_in_a_task_with_a_readable_name(connected: Cluster) -> None:
    connected.submit("x")

    assert connected.tasks() == ["source-flights-0.0-1"]
    assert connected.states() == [("x", ExecutionState.RUNNING)]


def test_a_task_may_arrive_before_its_slot_offer_is_acknowledged(cluster: Cluster) -> None:
    cluster.acknowledge()
    cluster.allocate("a")
    cluster.welcome()

    cluster.submit("x", "a")

    assert cluster.states() == [("x", ExecutionState.RUNNING)]


def test_an_attempt_without_a_slot_is_reported_as_failed(connected: Cluster) -> None:
    connected.submit("x", "unknown")

    update = connected.job_master.expect(UpdateTaskExecutionState).state
    assert (update.attempt, update.state) == ("x", ExecutionState.FAILED)
    assert update.failure is not None
    assert update.failure.message == "job-1 holds no slot by unknown"


def test_what_is_said_under_a_former_session_of_the_job_master_is_dropped(connected: Cluster) -> None:
    submit = SubmitTask(descriptor=descriptor("x"), job_master=connected.job_master.ref)

    connected.say(submit, LeaderSessionId("a former one"))

    assert connected.tasks() == []


def test_messages_for_a_task_reach_it(connected: Cluster) -> None:
    connected.submit("x")
    asked = connected.job_master.heard(RequestSplits)
    split = FileSplit(split_id=SplitId("s"), path="/in/s", start_row=0, rows=1)

    connected.say(AddSplits(attempt=ExecutionAttemptId("x"), operator_id=SOURCE, splits=(split,)))

    assert len(asked) == 1
    assert len(connected.job_master.heard(RequestSplits)) == 1


def test_a_cancelled_task_ends_and_keeps_its_slot(connected: Cluster) -> None:
    connected.submit("x")
    connected.say(CancelTask(attempt=ExecutionAttemptId("x")))

    assert connected.states() == [("x", ExecutionState.RUNNING), ("x", ExecutionState.CANCELED)]
    assert connected.tasks() == []
    assert connected.resource_manager.heard(SlotAvailable) == []


@pytest.mark.parametrize("death", ["killed", "failed"])
def test_a_task_that_dies_without_a_word_is_reported_as_failed(connected: Cluster, death: str) -> None:
    connected.submit("x")
    task = connected.system.find(f"/user/{HERE}/{connected.tasks()[0]}")
    assert task is not None

    if death == "killed":
        connected.system.kill(task)
    else:
        task.tell(BridgeClosed())  # nobody had closed it

    assert connected.states() == [("x", ExecutionState.RUNNING), ("x", ExecutionState.FAILED)]


def test_freeing_a_slot_ends_its_tasks_first(connected: Cluster) -> None:
    connected.submit("x")
    connected.submit("y")

    connected.say(FreeSlot(allocation_id=AllocationId("a")))

    assert connected.tasks() == []
    assert connected.resource_manager.expect(SlotAvailable).allocation_id == "a"


def test_a_trigger_for_an_attempt_that_is_not_here_is_declined(connected: Cluster) -> None:
    connected.say(TriggerCheckpoint(job_id=JOB, attempt=ExecutionAttemptId("x"), checkpoint_id=7, timestamp_ms=0))

    assert connected.job_master.expect(DeclineCheckpoint) == DeclineCheckpoint(
        job_id=JOB,
        attempt=ExecutionAttemptId("x"),
        checkpoint_id=7,
        reason=CheckpointDeclineReason.CHECKPOINT_DECLINED_TASK_NOT_READY,
    )


def test_other_messages_for_an_attempt_that_is_not_here_are_unhandled_visibly(connected: Cluster) -> None:
    unhandled: list[UnhandledMessage] = []
    connected.system.event_stream.subscribe(unhandled.append, UnhandledMessage)

    connected.say(CancelTask(attempt=ExecutionAttemptId("x")))

    assert [event.message for event in unhandled] == [CancelTask(attempt=ExecutionAttemptId("x"))]


def test_a_partition_that_is_not_produced_here_is_not_found(connected: Cluster) -> None:
    wanted = partition_id(ExecutionAttemptId("x"), 0)

    connected.job_master.say(
        connected.task_manager,
        PartitionRequest(partition_id=wanted, subpartition=1, credit=2, consumer=connected.job_master.ref),
    )

    answer = connected.job_master.expect(ErrorResponse)
    assert (answer.partition_id, answer.subpartition, answer.partition_not_found) == (wanted, 1, True)


# The JobMaster


@pytest.mark.parametrize("leave", ["killed", "silent", "goodbye", "refuses"])
def test_when_the_job_master_is_gone_its_tasks_end_and_its_slots_are_free(connected: Cluster, leave: str) -> None:
    connected.submit("x")

    match leave:
        case "killed":
            connected.system.kill(connected.job_master.ref)
        case "silent":
            connected.let_the_resource_manager_ask_for(TIMEOUT_MS)
        case "goodbye":
            connected.say(DisconnectJobMaster(job_id=JOB))
        case "refuses":
            connected.say(RefuseRegistration(reason="the job is over"))

    assert connected.resource_manager.expect(SlotAvailable).allocation_id == "a"
    assert connected.tasks() == []


def test_after_it_left_the_session_of_a_job_master_is_stale(connected: Cluster) -> None:
    connected.say(DisconnectJobMaster(job_id=JOB))

    connected.submit("x")

    assert connected.job_master.heard(UpdateTaskExecutionState) == []


def test_a_job_master_that_asks_is_not_given_up(connected: Cluster) -> None:
    for _ in range(3 * TIMEOUT_MS // INTERVAL_MS):
        connected.system.advance(INTERVAL_MS)
        connected.say(HeartbeatRequest(origin=connected.job_master.ref))

    assert len(connected.job_master.heard(Heartbeat)) == 3 * TIMEOUT_MS // INTERVAL_MS
    assert connected.resource_manager.heard(SlotAvailable) == []


def test_a_new_leader_of_the_job_takes_the_place_of_the_old_one(connected: Cluster) -> None:
    connected.submit("x")
    session = LeaderSessionId("a later one")
    successor = Peer(connected.system, "successor", session)

    request = AllocateSlot(
        slot_id=slot_id(HERE, 1),
        job_id=JOB,
        allocation_id=AllocationId("b"),
        job_master=successor.ref,
        job_leader_session_id=session,
    )
    connected.resource_manager.say(connected.task_manager, request, RM_SESSION)

    assert successor.expect(RegisterTaskManager).task_manager_id == HERE
    assert connected.resource_manager.expect(SlotAvailable).allocation_id == "a"
    assert connected.tasks() == []


# Its own end


class Stumbling(TaskManager):
    """A TaskManager with a fault."""

    def handle_message(self, message: Message) -> None:
        if isinstance(message, HeartbeatRequest):
            raise ZeroDivisionError
        super().handle_message(message)


def test_a_failed_instance_ends_so_that_another_task_manager_takes_its_place(system: SeededSystem) -> None:
    cluster = Cluster(system, Stumbling)
    cluster.acknowledge()

    request = HeartbeatRequest(origin=cluster.resource_manager.ref)
    cluster.resource_manager.say(cluster.task_manager, request, RM_SESSION)

    assert not cluster.is_alive()
