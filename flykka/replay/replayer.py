"""The Replayer of jobs: the kernel's, and what the actors of a cluster were given that no trace has a copy of."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice

from flykka.actors.data_plane import DataPlane
from flykka.actors.high_availability.embedded import EmbeddedHaServices
from flykka.actors.task.bridge import Bridge
from flykka.messages.wire.ids import JobId, LeaderSessionId
from flykka.replay.fork_data_plane import ForkDataPlane
from flykka.replay.job_fork import JobSession
from flykka.replay.recorded_data_plane import RecordedDataPlane
from flykka.runtime.props import Props
from flykka.runtime.trace.effects import Spawn
from flykka.runtime.trace.reader import Trace
from flykka.runtime.trace.recipes import Instance, Opaque, Recipe, name_of
from flykka.runtime.trace.records import Spawned
from flykka.runtime.trace.replay.engine import ReplayEngine
from flykka.runtime.trace.replay.replayer import Replayer as KernelReplayer
from flykka.runtime.trace.replay.system import BOUNDARY

SPARK_DATA_PLANE = "flykka.spark_bridge.data_plane:SparkDataPlane"

_CLIENT = "it is the client, which is outside the cluster"
_OUTSIDE = dict.fromkeys(
    (
        "flykka.client.client_actor:JobClientActor",
        "flykka.client.client_actor:JobListenerActor",
        "flykka.simulation.client:SimulationClient",
    ),
    _CLIENT,
)
"""Whoever gave these their work is not there any more; by name, for a replay needs none of these modules."""

_JOB_MANAGER = "flykka.actors.job_manager.actor:JobManager"
_CLUSTER_ENTRYPOINT = "flykka.actors.cluster.entrypoint:ClusterEntrypoint"
_HA_SERVICES = (
    "flykka.actors.high_availability.embedded:EmbeddedHaServices",
    "flykka.cluster.high_availability.file_system:FileSystemHaServices",
    "flykka.cluster.high_availability.zookeeper:ZooKeeperHaServices",
)
_BRIDGE = "/bridge"
"""So end the paths of the bridges, children of Tasks."""
_FIRST_RECORDS = 10_000
"""Among these is the spawning of a cluster's first actors."""


class Replayer(KernelReplayer):
    """Replays traces of jobs where there is no Spark, no Java, no file and no user code.

    The data plane of a recorded cluster, of whatever class it was, is replaced by one with nothing behind it: what it
    said is in the trace. The clients' actors are the boundary, which is not replayed, and so are the bridges of data
    planes that have bridges of their own.

    Args:
        actors: Props by path, for actors that a trace does not tell enough about.
        stand_ins: live objects by the "module:Qualname" of the class of what could not be written to a trace.
    """

    def engine(self, trace: Trace | str | os.PathLike[str], *, actor: str | None = None) -> ReplayEngine:
        """An engine that replays turn by turn. Raises as `replay`, and the engine `DivergenceError`."""
        opened = trace if isinstance(trace, Trace) else Trace.open(trace)
        actors = {**_bridges(opened), **self._actors}
        standing_in = {**stand_ins(opened), **self._stand_ins}
        return ReplayEngine(opened, actors, standing_in, only=self._only(opened, actor), outside=_OUTSIDE)

    def session(self, trace: Trace | str | os.PathLike[str]) -> JobSession:
        """A replay that one walks through, at the beginning of the trace. Raises `TraceError` as `replay` does."""
        opened = trace if isinstance(trace, Trace) else Trace.open(trace)

        def fork_engine() -> ReplayEngine:
            plane = ForkDataPlane(opened, replays_bridges=has_bridges(opened))
            standing_in = {**stand_ins(opened, plane), **self._stand_ins}
            return ReplayEngine(opened, {**_bridges(opened), **self._actors}, standing_in, outside=_OUTSIDE)

        return JobSession(lambda: self.engine(opened), fork_engine)


def stand_ins(trace: Trace, data_plane: DataPlane | None = None) -> dict[str, object]:
    """What stands, at a replay of `trace`, for the live objects that the actors of a job were given."""
    # What a store has said is in the trace as well: one with nothing in it stands for each, and for what is made of it.
    services = EmbeddedHaServices()
    store = services.store(LeaderSessionId("recorded"))
    plane = data_plane or RecordedDataPlane(replays_bridges=has_bridges(trace))
    return {
        **dict.fromkeys(_HA_SERVICES, services),
        "flykka.actors.high_availability.services:LeaderStore": store,
        "flykka.actors.checkpoint_storage.job_checkpoints:JobCheckpoints": store.checkpoints(JobId("recorded")),
        **dict.fromkeys((SPARK_DATA_PLANE, *_data_planes(trace)), plane),
    }


def has_bridges(trace: Trace) -> bool:
    """Whether the bridges of a recorded cluster are those that every data plane of ours has: then they are replayed."""
    spawned = (effect for turn in trace for effect in turn.effects if isinstance(effect, Spawn))
    bridge = next((each for each in spawned if each.ref.path.endswith(_BRIDGE)), None)
    return bridge is not None and bridge.actor == name_of(Bridge)


def _data_planes(trace: Trace) -> Iterator[str]:
    """The classes of what clusters were given for a data plane."""
    spawned = (record.recipe for record in islice(trace.records(), _FIRST_RECORDS) if isinstance(record, Spawned))
    there = (snapshot.recipe for snapshot in trace.snapshots())
    for recipe in (*spawned, *there):
        match recipe:
            case Recipe(factory=factory, arguments=(_, data_plane, *_)) if factory == _JOB_MANAGER:
                yield from _live(data_plane)
            case Recipe(factory=factory) if factory == _CLUSTER_ENTRYPOINT:
                for component in (*recipe.arguments, *recipe.keywords.values()):
                    if isinstance(component, Instance):
                        yield from _live(component.fields.get("data_plane"))


def _bridges(trace: Trace) -> dict[str, Props]:
    """Those who were there where a ring begins: later ones are spawned by the replayed Tasks, as stand-ins."""
    paths = (snapshot.ref.path for snapshot in trace.snapshots())
    return {path: BOUNDARY for path in paths if path.endswith(_BRIDGE)}


def _live(argument: object) -> Iterator[str]:
    match argument:
        case Opaque(type_name=name) | Instance(class_name=name):
            yield name
