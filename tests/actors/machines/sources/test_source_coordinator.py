"""The times at which splits are discovered, and the discovery state that a checkpoint contains."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flykka.actors.machines.effects import Ignore, LogWarning, StartTimer, Tell
from flykka.actors.machines.sources.source_coordinator import FEW_SPLITS, SourceCoordinator
from flykka.actors.machines.sources.source_events import (
    DiscoverSplits,
    SourceEffect,
    SourceEvent,
    SourcesReset,
    SourcesSnapshotted,
)
from flykka.messages.checkpointing.checkpoint import OperatorCoordinatorState, SnapshotOperatorCoordinators
from flykka.messages.control.job_control import SplitDiscoveryDue, SplitDiscoveryFailed
from flykka.messages.tasks.source import FileBatchSplit, SplitsDiscovered
from flykka.messages.wire.errors import DecodeError
from flykka.messages.wire.ids import JobVertexId, OperatorId, SplitId
from tests.actors.machines.coordinators.coordinating import checkpoint_aborted, checkpoint_completed
from tests.actors.machines.graph.graphs import JOB, failure, graph_of, vertex
from tests.actors.machines.scheduling import splits
from tests.actors.machines.scheduling.splits import (
    assigns,
    attempt_ended,
    attempt_of,
    file_split,
    no_more,
    request_splits,
    reset,
    settled,
)

LEFT, RIGHT = OperatorId("left"), OperatorId("right")
INTERVAL_MS = 1_000


def discovered_files(names: str, *, finished: bool = False, begun_at: str = "", more: bool = False) -> SplitsDiscovered:
    discovered = splits.discovered_splits(names, finished=finished, begun_at=begun_at)
    return replace(discovered, more=more, interval_ms=INTERVAL_MS)


def discover(position: bytes = b"", source: OperatorId = LEFT) -> DiscoverSplits:
    return DiscoverSplits(operator_id=source, position=position)


def due(source: OperatorId = LEFT) -> SplitDiscoveryDue:
    return SplitDiscoveryDue(operator_id=source)


def later() -> StartTimer:
    return StartTimer(key="split-discovery/left", delay_ms=INTERVAL_MS, message=due())


def discovery_failed(source: OperatorId = LEFT) -> SplitDiscoveryFailed:
    return SplitDiscoveryFailed(operator_id=source, cause=failure())


def snapshot(checkpoint_id: int) -> SnapshotOperatorCoordinators:
    return SnapshotOperatorCoordinators(job_id=JOB, checkpoint_id=checkpoint_id)


class Coordinated:
    def __init__(self, *names: str) -> None:
        self.coordinator = SourceCoordinator(graph_of(*(vertex(name, 2) for name in names or ("left",))))

    def tell(self, event: SourceEvent) -> list[SourceEffect]:
        effects = self.coordinator.handle(event, now=0)
        self.coordinator.check()
        return effects


def test_every_source_is_discovered_when_its_readers_start() -> None:
    coordinated = Coordinated("left", "right")

    effects = coordinated.tell(SourcesReset())

    assert effects == [discover(), discover(source=RIGHT)]


def test_discovery_is_repeated_until_a_source_is_finished() -> None:
    coordinated = Coordinated()
    coordinated.tell(SourcesReset())

    assert coordinated.tell(discovered_files("a")) == [later()]
    assert coordinated.tell(due()) == [discover(b"a")]
    assert coordinated.tell(discovered_files("b", begun_at="a", finished=True)) == []


def test_the_retained_external_position_is_from_the_last_discovery() -> None:
    coordinated = Coordinated("left", "right")
    coordinated.tell(SourcesReset())
    before = coordinated.coordinator.retained
    coordinated.tell(replace(discovered_files("a"), retained="12 MB of a log"))

    assert (before, coordinated.coordinator.retained) == ((), ("12 MB of a log",))


def test_the_next_discovery_starts_when_few_splits_are_left() -> None:
    coordinated = Coordinated()
    coordinated.tell(SourcesReset())
    names = "".join(chr(number) for number in range(0x100, 0x100 + FEW_SPLITS))

    enough = coordinated.tell(discovered_files(names, more=True))
    (handed_out, next_look) = coordinated.tell(request_splits(0))

    assert enough == []
    assert isinstance(handed_out, Tell)
    assert next_look == discover(names.encode())
    assert coordinated.tell(request_splits(1)) == [assigns(1, names[1], 1)]


def test_a_discovery_of_few_splits_is_followed_by_another_at_once() -> None:
    coordinated = Coordinated()
    coordinated.tell(SourcesReset())

    assert coordinated.tell(discovered_files("a", more=True)) == [discover(b"a")]


def test_a_missing_location_is_reported_once_until_it_has_existed() -> None:
    coordinated = Coordinated()
    coordinated.tell(SourcesReset())
    nothing, something = replace(discovered_files(""), missing_path="logs"), discovered_files("")

    effects = []
    for seen in (nothing, nothing, something, nothing):
        effects.append(coordinated.tell(seen))
        coordinated.tell(due())

    warned = LogWarning(text="source 'left' waits: no folder or file logs exists yet; it is checked again every 1 s")
    assert effects == [[warned, later()], [later()], [later()], [warned, later()]]


def test_unassigned_files_include_those_of_the_next_discovery() -> None:
    coordinated = Coordinated()
    coordinated.tell(SourcesReset())
    batches = tuple(
        FileBatchSplit(split_id=SplitId(f"{number}"), rows=0, files=(file_split("a"), file_split("b")))
        for number in range(FEW_SPLITS)
    )
    coordinated.tell(replace(discovered_files("", more=True), splits=batches, position=b"1", files_left=3))

    before = coordinated.coordinator.files_unassigned(JobVertexId("left"))
    coordinated.tell(request_splits(0))

    assert before == 2 * FEW_SPLITS + 3
    assert coordinated.coordinator.files_unassigned(JobVertexId("left")) == before - 2
    assert coordinated.coordinator.files_unassigned(JobVertexId("another")) == 0


def test_a_restart_does_not_start_a_concurrent_discovery() -> None:
    coordinated = Coordinated()
    coordinated.tell(SourcesReset())

    assert coordinated.tell(SourcesReset()) == []


def test_a_discovery_started_before_a_restart_is_followed_by_another() -> None:
    coordinated = Coordinated()
    coordinated.tell(SourcesReset())
    coordinated.tell(discovered_files("a"))
    coordinated.tell(due())

    coordinated.tell(SourcesReset())

    assert coordinated.tell(discovered_files("b", begun_at="a", finished=True)) == [discover()]
    assert coordinated.tell(discovered_files("ab", finished=True)) == []
    assert coordinated.tell(request_splits(0, 2)) == [assigns(0, "ab")]


def test_a_restart_starts_a_discovery_at_once() -> None:
    coordinated = Coordinated()
    coordinated.tell(SourcesReset())
    coordinated.tell(discovered_files("a"))

    assert coordinated.tell(SourcesReset()) == [discover()]


def test_a_change_during_a_discovery_triggers_another_discovery() -> None:
    coordinated = Coordinated()
    coordinated.tell(SourcesReset())

    assert coordinated.tell(due()) == []
    assert coordinated.tell(discovered_files("a")) == [discover(b"a")]
    assert coordinated.tell(discovered_files("b", begun_at="a")) == [later()]


def test_a_discovery_is_reported_only_once() -> None:
    coordinated = Coordinated()
    coordinated.tell(SourcesReset())
    coordinated.tell(discovered_files("a"))

    (ignored,) = coordinated.tell(discovered_files("a"))

    assert ignored == Ignore(reason="no discovery of this source's splits is under way")


def test_a_failed_discovery_is_repeated_when_new_readers_start() -> None:
    coordinated = Coordinated()
    coordinated.tell(SourcesReset())

    coordinated.tell(discovery_failed())

    assert coordinated.tell(SourcesReset()) == [discover()]


def test_readers_get_discovered_splits_and_are_notified_of_the_end() -> None:
    coordinated = Coordinated()
    coordinated.tell(SourcesReset())
    coordinated.tell(request_splits(1, 2))

    effects = coordinated.tell(discovered_files("a", finished=True))

    assert effects == [
        assigns(1, "a"),
        no_more(1),
    ]


def test_a_reader_gets_no_splits_between_a_snapshot_and_its_acknowledgement() -> None:
    coordinated = Coordinated()
    coordinated.tell(SourcesReset())
    coordinated.tell(discovered_files("a"))

    coordinated.tell(snapshot(1))

    assert coordinated.tell(request_splits(0)) == []
    assert coordinated.tell(settled(0, 1)) == [assigns(0, "a")]


def test_an_aborted_checkpoint_does_not_block_a_reader() -> None:
    coordinated = Coordinated()
    coordinated.tell(SourcesReset())
    coordinated.tell(discovered_files("a"))
    coordinated.tell(snapshot(1))
    coordinated.tell(request_splits(0))

    assert coordinated.tell(checkpoint_aborted(1)) == [assigns(0, "a")]


def test_the_acknowledgement_of_a_task_without_a_source_is_ignored() -> None:
    coordinated = Coordinated()

    effects = coordinated.tell(settled(0, 1, JobVertexId("sink")))

    assert not any(isinstance(effect, Tell) for effect in effects)


def test_splits_assigned_after_the_checkpoint_are_reassigned_after_a_restore() -> None:
    coordinated = Coordinated()
    coordinated.tell(SourcesReset())
    coordinated.tell(discovered_files("a"))
    coordinated.tell(request_splits(0))
    (snapshotted,) = coordinated.tell(snapshot(1))
    coordinated.tell(settled(0, 1))
    coordinated.tell(request_splits(0))
    coordinated.tell(due())
    coordinated.tell(discovered_files("b", begun_at="a"))
    assert isinstance(snapshotted, SourcesSnapshotted)

    assert coordinated.tell(SourcesReset(states=snapshotted.states)) == [discover(b"a")]
    coordinated.tell(discovered_files("b", begun_at="a"))

    assert coordinated.tell(request_splits(1)) == [assigns(1, "b", 1)]


def test_a_restarted_subtask_resumes_from_the_completed_checkpoint() -> None:
    coordinated = Coordinated()
    coordinated.tell(SourcesReset())
    coordinated.tell(discovered_files("abc", finished=True))
    coordinated.tell(request_splits(0))
    coordinated.tell(snapshot(1))
    for subtask in range(2):
        coordinated.tell(settled(subtask, 1))
    coordinated.tell(checkpoint_completed(1))
    coordinated.tell(request_splits(0))

    coordinated.tell(attempt_ended(0))
    coordinated.tell(reset(0, 1))

    assert coordinated.tell(request_splits(0)) == [Ignore(reason="attempt 0 of subtask 0 has ended")]
    assert coordinated.tell(request_splits(0, 2, attempt=1)) == [assigns(0, "bc", 1, 2, attempt=1)]


def test_messages_about_an_unknown_source_are_ignored() -> None:
    coordinated = Coordinated("left", "right")
    nowhere = OperatorId("nowhere")
    foreign = replace(request_splits(0), attempt=attempt_of(0, vertex=JobVertexId("right")))

    effects = [
        effect
        for event in (
            foreign,
            replace(request_splits(0), operator_id=nowhere),
            replace(discovered_files("a"), operator_id=nowhere),
            discovery_failed(nowhere),
            due(nowhere),
        )
        for effect in coordinated.tell(event)
    ]

    assert [type(effect) for effect in effects] == [Ignore] * 5


def test_invalid_coordinator_state_is_refused() -> None:
    coordinated = Coordinated()

    with pytest.raises(DecodeError):
        coordinated.tell(SourcesReset(states=(OperatorCoordinatorState(operator_id=LEFT, data=b"garbage"),)))


def test_a_snapshot_contains_the_state_of_each_source_separately() -> None:
    coordinated = Coordinated("left", "right")
    coordinated.tell(SourcesReset())

    (snapshotted,) = coordinated.tell(snapshot(3))

    assert isinstance(snapshotted, SourcesSnapshotted)
    assert [state.operator_id for state in snapshotted.states] == [LEFT, RIGHT]
