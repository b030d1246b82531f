"""When sources are looked at, and what of them belongs to a checkpoint."""

from __future__ import annotations

from flykka.actors.scheduling.source_coordinator import (
    CheckpointAbandoned,
    LookDue,
    LookEnded,
    LookFailed,
    LookForSplits,
    LookLater,
    ReaderAsked,
    SendNoMoreSplits,
    SendSplits,
    SnapshotWanted,
    SourceCoordinator,
    SourceEffect,
    SourceEvent,
    SourcesReset,
    SourcesSnapshotted,
    TaskSettled,
)
from flykka.messages.ids import JobVertexId, OperatorId, SplitId
from flykka.messages.source import FileSplit
from tests.actors.graph.graphs import graph_of, vertex

LEFT, RIGHT = OperatorId("left"), OperatorId("right")


def split(name: str) -> FileSplit:
    return FileSplit(split_id=SplitId(name), path=f"/in/{name}", start_row=0, rows=1)


def found(name: str, *, finished: bool = False, source: OperatorId = LEFT) -> LookEnded:
    return LookEnded(operator_id=source, splits=(split(name),), finished=finished)


def handed(name: str, subtask: int = 0) -> SendSplits:
    return SendSplits(vertex_id=JobVertexId("left"), subtask=subtask, operator_id=LEFT, splits=(split(name),))


def asked(subtask: int = 0, count: int = 1) -> ReaderAsked:
    return ReaderAsked(operator_id=LEFT, subtask=subtask, count=count)


class Coordinated:
    """A coordinator whose invariants are checked behind every event."""

    def __init__(self, *names: str) -> None:
        self.coordinator = SourceCoordinator(graph_of(*(vertex(name, 2) for name in names or ("left",))))

    def tell(self, event: SourceEvent) -> list[SourceEffect]:
        effects = self.coordinator.handle(event, now=0)
        self.coordinator.check()
        return effects


def test_every_source_is_looked_at_when_the_readers_begin() -> None:
    coordinated = Coordinated("left", "right")

    effects = coordinated.tell(SourcesReset())

    assert effects == [
        LookForSplits(operator_id=LEFT, seen=frozenset()),
        LookForSplits(operator_id=RIGHT, seen=frozenset()),
    ]


def test_a_source_is_looked_at_again_later_until_it_is_finished() -> None:
    coordinated = Coordinated()
    coordinated.tell(SourcesReset())

    assert coordinated.tell(found("a")) == [LookLater(operator_id=LEFT)]
    assert coordinated.tell(LookDue(operator_id=LEFT)) == [
        LookForSplits(operator_id=LEFT, seen=frozenset({SplitId("a")}))
    ]
    assert coordinated.tell(found("b", finished=True)) == []


def test_a_restart_begins_no_second_look_beside_the_first() -> None:
    coordinated = Coordinated()
    coordinated.tell(SourcesReset())

    assert coordinated.tell(SourcesReset()) == []


def test_a_source_whose_look_failed_is_looked_at_when_new_readers_begin() -> None:
    coordinated = Coordinated()
    coordinated.tell(SourcesReset())

    coordinated.tell(LookFailed(operator_id=LEFT))

    assert coordinated.tell(SourcesReset()) == [LookForSplits(operator_id=LEFT, seen=frozenset())]


def test_readers_get_what_is_found_and_hear_when_there_is_no_more() -> None:
    coordinated = Coordinated()
    coordinated.tell(SourcesReset())
    coordinated.tell(asked(subtask=1, count=2))

    effects = coordinated.tell(found("a", finished=True))

    assert effects == [
        handed("a", subtask=1),
        SendNoMoreSplits(vertex_id=JobVertexId("left"), subtask=1, operator_id=LEFT),
    ]


def test_from_the_snapshot_until_it_has_settled_a_reader_gets_nothing() -> None:
    coordinated = Coordinated()
    coordinated.tell(SourcesReset())
    coordinated.tell(found("a"))

    coordinated.tell(SnapshotWanted(checkpoint_id=1))

    assert coordinated.tell(asked()) == []
    assert coordinated.tell(TaskSettled(vertex_id=JobVertexId("left"), subtask=0, checkpoint_id=1)) == [handed("a")]


def test_an_abandoned_checkpoint_holds_nobody_back() -> None:
    coordinated = Coordinated()
    coordinated.tell(SourcesReset())
    coordinated.tell(found("a"))
    coordinated.tell(SnapshotWanted(checkpoint_id=1))
    coordinated.tell(asked())

    assert coordinated.tell(CheckpointAbandoned(checkpoint_id=1)) == [handed("a")]


def test_a_task_that_is_no_source_settles_nothing() -> None:
    coordinated = Coordinated()

    effects = coordinated.tell(TaskSettled(vertex_id=JobVertexId("sink"), subtask=0, checkpoint_id=1))

    assert not any(isinstance(effect, SendSplits) for effect in effects)


def test_what_was_handed_out_behind_the_checkpoint_is_handed_out_again() -> None:
    coordinated = Coordinated()
    coordinated.tell(SourcesReset())
    coordinated.tell(found("a"))
    coordinated.tell(asked())
    (snapshot,) = coordinated.tell(SnapshotWanted(checkpoint_id=1))
    coordinated.tell(TaskSettled(vertex_id=JobVertexId("left"), subtask=0, checkpoint_id=1))
    coordinated.tell(asked())
    coordinated.tell(found("b"))
    assert isinstance(snapshot, SourcesSnapshotted)

    coordinated.tell(SourcesReset(states=snapshot.states))

    assert coordinated.tell(asked(subtask=1)) == [handed("b", subtask=1)]


def test_every_source_has_its_own_part_of_a_snapshot() -> None:
    coordinated = Coordinated("left", "right")
    coordinated.tell(SourcesReset())

    (snapshot,) = coordinated.tell(SnapshotWanted(checkpoint_id=3))

    assert isinstance(snapshot, SourcesSnapshotted)
    assert [state.operator_id for state in snapshot.states] == [LEFT, RIGHT]
