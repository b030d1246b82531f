"""A simulation: a cluster, its jobs and their faults, all drawn from one seed."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING

from flykka.actors.cluster.entrypoint import ClusterEntrypoint, ConfiguredJobManager, ConfiguredResourceManager
from flykka.actors.execution_graph_info_store.actor import ExecutionGraphInfoStoreActor
from flykka.actors.high_availability.embedded import EmbeddedHaServices
from flykka.actors.machines.slots.task_manager_tracker import WorkerCounts
from flykka.actors.machines.state.handles import exclusive_state
from flykka.actors.task_manager.actor import ConfiguredTaskManagers
from flykka.client.leader_retriever import LeaderRetriever
from flykka.messages.checkpointing.checkpoint import AcknowledgeCheckpoint
from flykka.messages.control.job import (
    JobNotFound,
    JobResultFailure,
    JobResultSuccess,
    JobStatus,
    JobSubmitSuccess,
    RegisterJobClient,
    SubmitJob,
    TriggerSavepointSuccess,
)
from flykka.messages.control.job_manager import LeaderLookupDue
from flykka.messages.graph.job_graph import CheckpointingMode, JobGraph
from flykka.messages.monitoring.job_details import CHECKPOINT_HISTORY
from flykka.messages.tasks.simulation import SimulationBegun
from flykka.messages.wire.codec import encode
from flykka.messages.wire.ids import JobId
from flykka.messages.wire.message import Message, Value
from flykka.messages.wire.ref import Ref
from flykka.messages.wire.tags import trace_tag
from flykka.monitors.monitor import Violation
from flykka.monitors.monitors import all_monitors
from flykka.monitors.recorder import MonitoringRecorder
from flykka.runtime.actor import Actor
from flykka.runtime.events import ActorFailed, UnhandledMessage
from flykka.runtime.props import Props
from flykka.runtime.ref import ActorRef
from flykka.runtime.signals import Terminated
from flykka.runtime.trace.record.forwarding import ForwardingRecorder
from flykka.runtime.trace.record.recorder import TraceRecorder
from flykka.simulation import checks
from flykka.simulation.data_plane import SimulatedDataPlane
from flykka.simulation.environment import Environment
from flykka.simulation.fault_injection import FaultPlan, Injections
from flykka.simulation.outcome import CheckpointTally, SimulationOutcome
from flykka.simulation.scenario import HEARTBEAT_INTERVAL_MS, HEARTBEAT_TIMEOUT_MS, JobPlan, Scenario, job_graph
from flykka.simulation.scenario_drawing import SLOTS, draw_scenario
from flykka.simulation.scenario_form import to_json
from flykka.simulation.settings import SimulationSettings
from flykka.simulation.storage import mounted
from flykka.simulation.system import SimulatedSystem

if TYPE_CHECKING:
    from flykka.messages.wire.failure import SerializedThrowable
    from flykka.runtime.mailbox.envelope import Envelope
    from flykka.runtime.recording import Effect, Recorder


_STEP_MS = 500


def simulate(seed: int, settings: SimulationSettings | None = None) -> SimulationOutcome:
    """Simulate a cluster with its jobs and faults, all drawn from `seed`, and check the run.

    The same seed gives the same run, independent of earlier runs in the process.

    Args:
        seed: draws the jobs, the cluster, the faults and the order of turns.
        settings: the faults to draw from, the trace and the limits of the run.
    """
    settings = settings or SimulationSettings()
    return run(draw_scenario(seed, settings), settings)


def run(scenario: Scenario, settings: SimulationSettings | None = None) -> SimulationOutcome:
    """Run a scenario. Settings that only affect the draw are ignored."""
    name = f"seed-{scenario.seed}"
    with mounted(name) as storage:
        environment = Environment(name, storage, scenario.topology.program, scenario.stage_ms, scenario.local_recovery)
        return _Simulation(scenario, settings or SimulationSettings(), environment).run()


@dataclass(slots=True)
class _SimulatedJob:
    graph: JobGraph
    was_stopped: bool = False
    status: str = ""


class _Simulation:
    def __init__(self, scenario: Scenario, settings: SimulationSettings, environment: Environment) -> None:
        self._scenario = scenario
        self._settings = settings
        self._topology = scenario.topology
        self._environment = environment
        self._received = ReceivedMessages()
        self._jobs: list[_SimulatedJob] = []
        self._found: list[Violation] = []
        trace = None if settings.trace_path is None else TraceRecorder(settings.trace_path)
        self._digest = DigestRecorder(trace) if settings.digest else None
        self._recorder = MonitoringRecorder(self._digest or trace, all_monitors())
        self._system = SimulatedSystem(scenario.seed, environment.name, self._recorder)

    def run(self) -> SimulationOutcome:
        with self._system:
            self._system.event_stream.subscribe(self._on_failure, ActorFailed)
            self._system.event_stream.subscribe(self._on_unhandled, UnhandledMessage)
            self._start_cluster()
            self._system.add_delivery_hook(self._on_delivery)
            self._injections = Injections(self._system, self._environment, self._topology)
            self._faults = FaultPlan(self._system, self._injections)
            self._run_jobs()
            # Paused actors could not terminate.
            self._system.schedule.resume_all()
        return self._outcome()

    def _start_cluster(self) -> None:
        task_managers = self._scenario.task_managers
        slots = -(-SLOTS // task_managers)
        props = ConfiguredTaskManagers(slots=slots, data_plane=SimulatedDataPlane(self._environment))
        resource_manager = ConfiguredResourceManager(
            workers=WorkerCounts(configured=task_managers, slots=slots),
            task_manager_props=props,
            heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
            heartbeat_timeout_ms=HEARTBEAT_TIMEOUT_MS,
        )
        sessions = count(1)
        services = EmbeddedHaServices(new_id=lambda: f"{self._environment.name}-session-{next(sessions)}")
        job_manager = ConfiguredJobManager(data_plane=SimulatedDataPlane(self._environment), high_availability=services)
        self._system.spawn(Props(ClusterEntrypoint, resource_manager, job_manager), "cluster-entrypoint")
        self._system.advance(0)
        first = self._system.find("/user/job-manager")
        assert first is not None, "the entrypoint has not started a JobManager"
        actors = (cell.instance for cell in self._system.cells.living())
        (store,) = (each for each in actors if isinstance(each, ExecutionGraphInfoStoreActor))
        self._read_models, self._read_models_path = store.store, store.context.ref.path
        self._client: ActorRef = self._system.spawn(Props(SimulationClient, self._received, first), "client")
        self._client.tell(SimulationBegun(scenario=to_json(self._scenario)))

    def _run_jobs(self) -> None:
        path: str | None = None
        for plan in self._scenario.jobs:
            job = self._submit(plan, path)
            if not self._bring_to_end(job, plan):
                return
            path = self._path_to_go_on_from(job, plan)
            if path is None:
                return

    def _submit(self, plan: JobPlan, path: str | None) -> _SimulatedJob:
        job_id = JobId(f"job-{len(self._jobs) + 1}")
        checkpointing = replace(
            plan.checkpointing, directory=f"{self._environment.root}/{plan.checkpointing.directory}"
        )
        parallelism = plan.parallelism
        topology = self._topology.rescaled(lambda n: parallelism[n - 1]) if parallelism else self._topology
        scenario = self._scenario
        if scenario.approximate:
            # As in the API, in-flight batches are lost, and not stored.
            topology = topology.as_approximate()
            checkpointing = replace(checkpointing, unaligned=False, aligned_timeout_ms=0)
        graph = job_graph(
            job_id,
            topology,
            checkpointing,
            scenario.restart_strategy,
            scenario.job_type,
            scenario.failover_strategy,
            coalesces_batches=scenario.coalesces_batches,
        )
        job = _SimulatedJob(graph)
        self._jobs.append(job)
        self._client.tell(SubmitJob(job_graph=graph, client=self._client, restore_path=path))
        return job

    def _bring_to_end(self, job: _SimulatedJob, plan: JobPlan) -> bool:
        """Run until the job has ended. Returns False if it does not end."""
        self._faults.plan(plan.faults, job.graph, self._client)
        job_id = job.graph.job_id
        while job_id not in self._received.results:
            if self._recorder.violations or self._environment.violations or self._found:
                return False  # The consequences of a violation are not relevant.
            if (why := self._pass_time()) is not None:
                self._violated("progress", f"{job_id} has not ended {why}")
                return False
        # Messages that are in transit when the job ends can still arrive.
        self._system.advance(1)
        while self._system.schedule.is_paused(self._read_models_path):
            # The client knows that the job has ended, but the actor that updates the read model may be paused.
            self._system.advance(_STEP_MS)
        result = self._received.results[job_id]
        self._check_read_model(job_id, result)
        match result:
            case JobResultSuccess():
                job.was_stopped = result.checkpoint_path is not None
                job.status = "STOPPED" if job.was_stopped else "FINISHED"
            case JobResultFailure(status=status):
                job.status = status.value
                self._judge(job, result)
        self._check_output(job)
        self._check_storage(job)
        return True

    def _pass_time(self) -> str | None:
        """Advance time. If no more progress is to be expected, return the reason."""
        settings, now = self._settings, self._system.clock.now_ms
        if now() > self._faults.last_ms + settings.patience_ms:
            return f"{settings.patience_ms // 1_000} s after the last fault"
        if self._system.schedule.steps > settings.max_steps:
            return f"after {settings.max_steps:,} steps"
        try:
            self._faults.run_for(_STEP_MS)
        except RuntimeError as busy:
            return f"at {now()} ms: {busy}"
        return None

    def _path_to_go_on_from(self, job: _SimulatedJob, plan: JobPlan) -> str | None:
        path = self._received.results[job.graph.job_id].checkpoint_path
        return path if job.was_stopped or plan.goes_on else None

    def _on_failure(self, event: ActorFailed) -> None:
        self._violated("actors", f"{event.ref.path} failed: {event.failure.type_name}: {event.failure.message}")

    def _on_unhandled(self, unhandled: UnhandledMessage) -> None:
        if unhandled.recipient.path in self._injections.task_managers():
            return  # The Task has ended, so that its TaskManager cannot forward the message.
        self._violated("actors", f"{unhandled.recipient.path} does not understand {type(unhandled.message).__name__}")

    def _on_delivery(self, recipient: ActorRef, message: Message, _sender: Ref | None) -> None:
        """Record state that a coordinator receives, because the coordinator must delete it from then on."""
        if type(message) is AcknowledgeCheckpoint and recipient.path.endswith("/checkpoint-coordinator"):
            paths = self._environment.acknowledged.setdefault(message.job_id, set())
            paths.update(self._environment.path(handle.path) for handle in exclusive_state(message.state))

    def _judge(self, job: _SimulatedJob, result: JobResultFailure) -> None:
        if result.status is JobStatus.CANCELED or self._injections.allows_failure:
            return
        cause = f"{result.cause.type_name}: {result.cause.message}"
        self._violated("result", f"{job.graph.job_id} is {job.status}, although it restarts without limit: {cause}")

    def _check_read_model(self, job_id: JobId, result: JobResultSuccess | JobResultFailure) -> None:
        """Check that the read model has the same result. A refused job may have no read model."""
        status = JobStatus.FINISHED if isinstance(result, JobResultSuccess) else result.status
        model = self._read_models.jobs.get(job_id)
        if model is None:
            if job_id in self._received.accepted:
                self._violated("read-model", f"{job_id} is {status}, but has no read model")
        elif model.status is not status:
            self._violated("read-model", f"{job_id} is {status}, but its read model has {model.status}")

    def _check_output(self, job: _SimulatedJob) -> None:
        is_exact = job.graph.checkpointing.mode is CheckpointingMode.EXACTLY_ONCE
        is_lossy = self._scenario.approximate and bool(self._faults_happened)
        is_complete = job.status == "FINISHED"
        for text in checks.wrong_output(
            self._topology, self._environment, is_complete=is_complete, is_exact=is_exact, is_lossy=is_lossy
        ):
            self._violated("output", f"{job.graph.job_id} is {job.status}: {text}")
        self._check_counts(job)

    def _check_counts(self, job: _SimulatedJob) -> None:
        """Check the reported number of published rows: at most the actual number, and equal in a run without faults."""
        now = self._system.clock.now_ms()
        vertices = (vertex for model in self._read_models.jobs.values() for vertex in model.details(now, 0).vertices)
        reported, there = sum(vertex.rows_published for vertex in vertices), self._rows_published()
        is_undisturbed = not self._faults_happened and len(self._jobs) == 1
        if reported > there or (is_undisturbed and job.status == "FINISHED" and reported < there):
            self._violated("output", f"{reported} rows were reported as published, but readers see {there}")

    def _rows_published(self) -> int:
        return sum(len(self._environment.published(sink)) for sink in self._environment.program.sinks)

    @property
    def _faults_happened(self) -> Counter[str]:
        return self._injections.injected + self._system.network.happened

    def _check_storage(self, job: _SimulatedJob) -> None:
        environment, job_id = self._environment, job.graph.job_id
        checkpoint_path = self._received.results[job_id].checkpoint_path
        own_path = [] if checkpoint_path is None else [checkpoint_path]
        for text in checks.missing(environment, [*self._received.savepoints, *own_path]):
            self._violated("storage", text)
        if not self._injections.has_killed_master:
            for path in checks.forgotten(environment, job_id):
                self._violated("storage", f"{job_id} is {job.status} and has left {path}, which has no references")
        if job.status not in ("FINISHED", "STOPPED") or self._injections.leaves_files:
            return
        # State of a pending checkpoint is retained until the folder is deleted.
        is_settled = checks.is_kept(environment, job_id) or not (own_path or self._was_aborted_last(job_id))
        leaks = {
            "has no references": checks.unreferenced(environment, job_id) if is_settled else [],
            "was not published": checks.staged(environment, job_id),
            "belongs to no savepoint": checks.half_savepoints(environment),
        }
        for what, paths in leaks.items():
            if paths:
                self._violated("storage", f"{job_id} is {job.status} and has left {paths[0]}, which {what}")

    def _was_aborted_last(self, job_id: JobId) -> bool:
        if (model := self._read_models.jobs.get(job_id)) is None:
            return False
        last_failed, last_completed = model.checkpoints.latest_failed, model.checkpoints.last_completed
        return last_failed is not None and (last_completed is None or last_failed.ended_ms >= last_completed.ended_ms)

    def _violated(self, monitor: str, text: str) -> None:
        self._found.append(Violation(monitor, text))

    def _outcome(self) -> SimulationOutcome:
        environment = self._environment
        checkpoints = [model.checkpoints for model in self._read_models.jobs.values()]
        ended_stats = [stats for each in checkpoints for stats in each.ended(CHECKPOINT_HISTORY)]
        aborted = Counter(str(stats.reason) for stats in ended_stats if stats.reason is not None)
        late_reads = (text for batches in environment.batches.values() for text in batches.read_after_release)
        own = [Violation("data-plane", text) for text in (*environment.violations, *late_reads)]
        return SimulationOutcome(
            seed=self._scenario.seed,
            topology=str(self._topology),
            faults=self._faults_happened,
            turns=self._system.next_sequence() - 1,
            checkpoints=CheckpointTally(
                completed=sum(each.counts.completed for each in checkpoints),
                aborted=aborted.total(),
                savepoints=len(self._received.savepoints),
                reasons=aborted,
            ),
            restarts=sum(model.number_of_restarts for model in self._read_models.jobs.values()),
            jobs=tuple(job.status for job in self._jobs if job.status),
            rows=self._rows_published(),
            late_rows=environment.late_rows,
            virtual_ms=self._system.clock.now_ms(),
            violations=(*self._recorder.end(), *own, *self._found),
            trace_path=self._settings.trace_path,
            digest=None if self._digest is None else self._digest.text(),
        )


class DigestRecorder(ForwardingRecorder):
    """Computes the digest of all records, with encoded messages, and forwards them to another recorder."""

    def __init__(self, inner: Recorder | None = None) -> None:
        super().__init__(inner)
        self._digest = hashlib.blake2s()

    def text(self) -> str:
        return self._digest.hexdigest()

    def turn(
        self,
        sequence: int,
        now_ms: int,
        recipient: Ref,
        envelope: Envelope,
        effects: list[Effect],
        failure: SerializedThrowable | None,
    ) -> None:
        cause = envelope.cause
        self._note("turn", sequence, now_ms, recipient, envelope.sender, cause, envelope.message, failure)
        for effect in effects:
            self._note(*effect)
        super().turn(sequence, now_ms, recipient, envelope, effects, failure)

    def spawned(self, sequence: int, now_ms: int, ref: Ref, parent: Ref, props: Props) -> None:
        self._note("spawned", sequence, now_ms, ref, parent)
        super().spawned(sequence, now_ms, ref, parent, props)

    def killed(self, sequence: int, now_ms: int, ref: Ref) -> None:
        self._note("killed", sequence, now_ms, ref)
        super().killed(sequence, now_ms, ref)

    def dead_letter(
        self, sequence: int, now_ms: int, message: Message, sender: Ref | None, recipient: Ref, reason: str
    ) -> None:
        self._note("dead letter", sequence, now_ms, message, sender, recipient, reason)
        super().dead_letter(sequence, now_ms, message, sender, recipient, reason)

    def _note(self, *parts: object) -> None:
        for part in parts:
            match part:
                case Ref(path=path, incarnation=incarnation):
                    data = f"{path}#{incarnation}".encode()
                case Value():
                    data = encode(part)
                case None | str() | int():
                    data = repr(part).encode()
                case _:
                    # Other objects are represented by their class name, because their text would contain a memory
                    # address.
                    data = type(part).__name__.encode()
            self._digest.update(len(data).to_bytes(4) + data)


@dataclass(slots=True)
class ReceivedMessages:
    accepted: set[JobId] = field(default_factory=set)
    results: dict[JobId, JobResultSuccess | JobResultFailure] = field(default_factory=dict)
    savepoints: list[str] = field(default_factory=list)


@trace_tag("actor.simulation_client")
class SimulationClient(Actor):
    """Submits jobs and listens to them. When a JobManager dies, it registers with the next one, as real clients do."""

    def __init__(self, received: ReceivedMessages, job_manager: Ref) -> None:
        self._heard = received
        self._job_manager = job_manager
        self._submitted: SubmitJob | None = None

    def pre_start(self) -> None:
        self._leader_retriever = LeaderRetriever(self.context, self._job_manager)
        self.context.watch(self._job_manager)

    def handle_message(self, message: Message) -> None:
        received = self._heard
        match message:
            case SubmitJob():
                self._submitted = message
                self._job_manager.tell(message)
            case Terminated():
                self._leader_retriever.on_leader_lost()
            case LeaderLookupDue():
                self._look_for_job_manager()
            case JobNotFound(job_id=job_id) if self._submitted is not None and job_id not in received.results:
                # The JobManager died before it accepted the job.
                self._job_manager.tell(self._submitted)
            case JobSubmitSuccess(job_id=job_id):
                received.accepted.add(job_id)
            case JobResultSuccess(job_id=job_id) | JobResultFailure(job_id=job_id):
                received.results.setdefault(job_id, message)
            case TriggerSavepointSuccess(savepoint_path=path):
                received.savepoints.append(path)
            case _:
                pass

    def _look_for_job_manager(self) -> None:
        leader = self._leader_retriever.find_leader()
        if leader is None:
            return
        self._job_manager = leader
        self.context.watch(leader)
        if self._submitted is not None:
            job_id = self._submitted.job_graph.job_id
            leader.tell(RegisterJobClient(job_id=job_id, client=self.context.ref))
