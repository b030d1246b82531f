"""When sources are looked at, and what of them belongs to a checkpoint."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flykka.actors.machines.ignore import Ignore
from flykka.actors.machines.sources.source_coordinator import SourceCoordinator
from flykka.actors.machines.sources.source_events import (
    AttemptEnded,
    CheckpointAbandoned,
    CheckpointCommitted,
    LookDue,
    LookEnded,
    LookFailed,
    LookForSplits,
    LookLater,
    ReaderAsked,
    SendNoMoreSplits,
    SendSplits,
    SnapshotWanted,
    SourceEffect,
    SourceEvent,
    SourcesReset,
    SourcesSnapshotted,
    TaskReset,
    TaskSettled,
    TellMissing,
)
from flykka.actors.machines.sources.split_enumerator import FEW_SPLITS
from flykka.messages.checkpointing.checkpoint import OperatorCoordinatorState
from flykka.messages.tasks.source import FileBatchSplit, FileSplit
from flykka.messages.wire.errors import DecodeError
from flykka.messages.wire.ids import JobVertexId, OperatorId, SplitId
from tests.actors.machines.graph.graphs import graph_of, vertex

LEFT, RIGHT = OperatorId("left"), OperatorId("right")


def split(name: str) -> FileSplit:
    return FileSplit(split_id=SplitId(name), path=f"/in/{name}", start_row=0, rows=1)


def found(names: str, *, finished: bool = False, begun_at: bytes = b"", more: bool = False) -> LookEnded:
    """A look that began behind `begun_at`, the names that were found before."""
    return LookEnded(
        operator_id=LEFT,
        splits=tuple(split(name) for name in names),
        finished=finished,
        begun_at=begun_at,
        position=begun_at + names.encode(),
        more=more,
    )


def look(position: bytes = b"", source: OperatorId = LEFT) -> LookForSplits:
    return LookForSplits(operator_id=source, position=position)


def handed(names: str, subtask: int = 0, number: int = 0) -> SendSplits:
    return SendSplits(
        vertex_id=JobVertexId("left"),
        subtask=subtask,
        operator_id=LEFT,
        splits=tuple(split(name) for name in names),
        numbers=tuple(range(number, number + len(names))),
    )


def asked(subtask: int = 0, count: int = 1, attempt: int = 0) -> ReaderAsked:
    return ReaderAsked(
        operator_id=LEFT, vertex_id=JobVertexId("left"), subtask=subtask, attempt_number=attempt, count=count
    )


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

    assert effects == [look(), look(source=RIGHT)]


def test_a_source_is_looked_at_again_later_until_it_is_finished() -> None:
    coordinated = Coordinated()
    coordinated.tell(SourcesReset())

    assert coordinated.tell(found("a")) == [LookLater(operator_id=LEFT)]
    assert coordinated.tell(LookDue(operator_id=LEFT)) == [look(b"a")]
    assert coordinated.tell(found("b", begun_at=b"a", finished=True)) == []


def test_where_more_is_there_the_next_look_is_taken_when_few_splits_are_left() -> None:
    coordinated = Coordinated()
    coordinated.tell(SourcesReset())
    names = "".join(chr(number) for number in range(0x100, 0x100 + FEW_SPLITS))

    enough = coordinated.tell(found(names, more=True))
    (handed_out, next_look) = coordinated.tell(asked(count=1))

    assert enough == []
    assert isinstance(handed_out, SendSplits)
    assert next_look == look(names.encode())
    assert coordinated.tell(asked(subtask=1)) == [handed(names[1], subtask=1, number=1)]


def test_where_a_look_brings_few_of_more_splits_the_next_one_follows_at_once() -> None:
    coordinated = Coordinated()
    coordinated.tell(SourcesReset())

    assert coordinated.tell(found("a", more=True)) == [look(b"a")]


def test_a_place_where_nothing_is_is_told_once_until_something_has_been_there() -> None:
    coordinated = Coordinated()
    coordinated.tell(SourcesReset())
    nothing, something = replace(found(""), missing_path="logs"), found("")

    effects = []
    for seen in (nothing, nothing, something, nothing):
        effects.append(coordinated.tell(seen))
        coordinated.tell(LookDue(operator_id=LEFT))

    told, later = TellMissing(operator_id=LEFT, path="logs"), LookLater(operator_id=LEFT)
    assert effects == [[told, later], [later], [later], [told, later]]


def test_files_that_wait_for_a_reader_are_counted_with_those_that_the_next_look_brings() -> None:
    coordinated = Coordinated()
    coordinated.tell(SourcesReset())
    batches = tuple(
        FileBatchSplit(split_id=SplitId(f"{number}"), rows=0, files=(split("a"), split("b")))
        for number in range(FEW_SPLITS)
    )
    coordinated.tell(replace(found("", more=True), splits=batches, position=b"1", files_left=3))

    before = coordinated.coordinator.files_unassigned(JobVertexId("left"))
    coordinated.tell(asked(count=1))

    assert before == 2 * FEW_SPLITS + 3
    assert coordinated.coordinator.files_unassigned(JobVertexId("left")) == before - 2
    assert coordinated.coordinator.files_unassigned(JobVertexId("another")) == 0


def test_a_restart_begins_no_second_look_beside_the_first() -> None:
    coordinated = Coordinated()
    coordinated.tell(SourcesReset())

    assert coordinated.tell(SourcesReset()) == []


def test_a_look_that_began_before_a_restart_is_followed_by_one_from_the_checkpoint() -> None:
    coordinated = Coordinated()
    coordinated.tell(SourcesReset())
    coordinated.tell(found("a"))
    coordinated.tell(LookDue(operator_id=LEFT))

    coordinated.tell(SourcesReset())

    assert coordinated.tell(found("b", begun_at=b"a", finished=True)) == [look()]
    assert coordinated.tell(found("ab", finished=True)) == []
    assert coordinated.tell(asked(count=2)) == [handed("ab")]


def test_a_restart_does_not_wait_for_the_next_look_to_be_due() -> None:
    coordinated = Coordinated()
    coordinated.tell(SourcesReset())
    coordinated.tell(found("a"))

    assert coordinated.tell(SourcesReset()) == [look()]
    (ignored,) = coordinated.tell(LookDue(operator_id=LEFT))
    assert isinstance(ignored, Ignore)


def test_a_look_is_told_of_once() -> None:
    coordinated = Coordinated()
    coordinated.tell(SourcesReset())
    coordinated.tell(found("a"))

    (ignored,) = coordinated.tell(found("a"))

    assert ignored == Ignore(reason="no look at this source is under way")


def test_a_source_whose_look_failed_is_looked_at_when_new_readers_begin() -> None:
    coordinated = Coordinated()
    coordinated.tell(SourcesReset())

    coordinated.tell(LookFailed(operator_id=LEFT))

    assert coordinated.tell(SourcesReset()) == [look()]


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
    coordinated.tell(LookDue(operator_id=LEFT))
    coordinated.tell(found("b", begun_at=b"a"))
    assert isinstance(snapshot, SourcesSnapshotted)

    assert coordinated.tell(SourcesReset(states=snapshot.states)) == [look(b"a")]
    coordinated.tell(found("b", begun_at=b"a"))

    assert coordinated.tell(asked(subtask=1)) == [handed("b", subtask=1, number=1)]


def test_a_subtask_alone_goes_on_from_the_completed_checkpoint() -> None:
    coordinated = Coordinated()
    here = JobVertexId("left")
    coordinated.tell(SourcesReset())
    coordinated.tell(found("abc", finished=True))
    coordinated.tell(asked())
    coordinated.tell(SnapshotWanted(checkpoint_id=1))
    for subtask in range(2):
        coordinated.tell(TaskSettled(vertex_id=here, subtask=subtask, checkpoint_id=1))
    coordinated.tell(CheckpointCommitted(checkpoint_id=1))
    coordinated.tell(asked())

    coordinated.tell(AttemptEnded(vertex_id=here, subtask=0, attempt_number=0))
    coordinated.tell(TaskReset(vertex_id=here, subtask=0, checkpoint_id=1))

    assert coordinated.tell(asked()) == [Ignore(reason="attempt 0 of subtask 0 is over")]
    assert coordinated.tell(asked(count=2, attempt=1)) == [handed("bc", number=1)]


def test_what_is_said_of_a_source_that_there_is_not_changes_nothing() -> None:
    coordinated = Coordinated("left", "right")
    nowhere = OperatorId("nowhere")
    foreign = replace(asked(), vertex_id=JobVertexId("right"))

    effects = [
        effect
        for event in (
            foreign,
            replace(asked(), operator_id=nowhere),
            replace(found("a"), operator_id=nowhere),
            LookFailed(operator_id=nowhere),
            LookDue(operator_id=nowhere),
        )
        for effect in coordinated.tell(event)
    ]

    assert [type(effect) for effect in effects] == [Ignore] * 5


def test_the_state_of_something_else_is_refused() -> None:
    coordinated = Coordinated()

    with pytest.raises(DecodeError):
        coordinated.tell(SourcesReset(states=(OperatorCoordinatorState(operator_id=LEFT, data=b"garbage"),)))


def test_every_source_has_its_own_part_of_a_snapshot() -> None:
    coordinated = Coordinated("left", "right")
    coordinated.tell(SourcesReset())

    (snapshot,) = coordinated.tell(SnapshotWanted(checkpoint_id=3))

    assert isinstance(snapshot, SourcesSnapshotted)
    assert [state.operator_id for state in snapshot.states] == [LEFT, RIGHT]
