"""The splits that a source subtask holds."""

from dataclasses import replace

from flykka.actors.machines.attempt.events import StartTask
from flykka.actors.machines.attempt.source import SplitReader
from flykka.messages.attempt.answers import ChainClosed
from flykka.messages.graph.job_graph import OperatorKind
from flykka.messages.state.handles import OperatorListState, OperatorSubtaskState, TaskStateSnapshot
from flykka.messages.tasks.source import FileBatchSplit, FileSplit
from flykka.messages.tasks.task import ExecutionState, UpdateTaskExecutionState
from flykka.messages.wire.ids import OperatorId, SplitId
from tests.actors.machines.attempt.attempt_machine import SOURCE, Harness, descriptor, to_job_master


def split(name: str) -> FileSplit:
    return FileSplit(split_id=SplitId(name), path=f"/in/{name}", start_row=0, rows=1)


def small(name: str) -> FileBatchSplit:
    return FileBatchSplit(split_id=SplitId(name), rows=0, files=(split(name),), size_bytes=1_000)


def reader(ahead: int = 4) -> SplitReader:
    return SplitReader(OperatorId("source"), ahead)


def test_splits_are_requested_ahead_and_only_once() -> None:
    held = reader(ahead=4)

    asked = [held.splits_to_request(), held.splits_to_request()]

    assert asked == [4, 0]


def test_reading_a_split_causes_a_request_for_another() -> None:
    held = reader(ahead=2)
    held.splits_to_request()
    held.add((split("a"), split("b")))

    read = held.next()

    assert read == (split("a"),)
    assert held.splits_to_request() == 1


def test_small_waiting_splits_are_read_together_and_others_separately() -> None:
    held = reader()
    held.add((small("a"), small("b"), split("c"), split("d"), small("e")))

    batches = [held.next() for _ in range(5)]

    assert batches == [(small("a"), small("b")), (split("c"),), (split("d"),), (small("e"),), ()]


def test_small_splits_are_requested_for_two_batches() -> None:
    held = reader(ahead=4)
    held.splits_to_request()
    held.add(tuple(small(name) for name in "abcd"))
    held.next()

    asked = held.splits_to_request()

    assert asked == 2 * held.limit.bytes // held.limit.cost(small("a"))
    assert held.splits_to_request() == 0


def test_the_reader_holds_few_splits_if_they_are_not_small() -> None:
    held = reader(ahead=4)
    held.add((small("a"),))
    held.next()

    held.add((split("b"),))

    assert held.splits_to_request() == 3


def test_a_restored_reader_reads_its_waiting_splits_together() -> None:
    held = reader()
    held.add((small("a"), small("b")))

    restored = reader()
    restored.restore([held.snapshot()])

    assert restored.next() == (small("a"), small("b"))


def test_a_restored_reader_holds_the_splits_unread_at_the_checkpoint() -> None:
    held = reader()
    held.add((split("a"), split("b"), split("c")))
    held.next()

    restored = reader()
    restored.restore([held.snapshot()])

    assert [restored.next(), restored.next(), restored.next()] == [(split("b"),), (split("c"),), ()]


def test_a_reader_is_exhausted_after_its_last_split() -> None:
    held = reader()
    held.add((split("a"),))
    held.no_more()

    before = held.is_exhausted
    held.next()

    assert not before
    assert held.is_exhausted
    assert held.splits_to_request() == 0


def test_splits_of_rescaled_readers_are_read_in_assignment_order() -> None:
    first, second = reader(), reader()
    first.add((split("0"), split("3")), numbers=(0, 3))
    second.add((split("1"), split("2")), numbers=(1, 2))

    merged = reader()
    merged.restore([second.snapshot(), first.snapshot()])

    assert [merged.next() for _ in range(4)] == [(split(number),) for number in "0123"]


def test_a_reader_ignores_state_of_other_operators_in_its_chain() -> None:
    other = SplitReader(OperatorId("other"), 4)
    other.add((split("a"),))

    restored = reader()
    restored.restore([other.snapshot()])

    assert not restored.has_unread


def test_a_source_with_unreadable_split_state_fails_without_a_restart() -> None:
    damaged = OperatorListState(name="SourceReaderState", elements=(b"damaged",))
    state = OperatorSubtaskState(operator_id=SOURCE, operator_state=(damaged,))
    deployed = replace(descriptor(OperatorKind.SOURCE), restore=TaskStateSnapshot(operators=(state,)))
    task = Harness(deployed)

    effects = task.feed(StartTask(), ChainClosed())

    [reported] = [message.state for message in to_job_master(effects) if isinstance(message, UpdateTaskExecutionState)]
    assert reported.state is ExecutionState.FAILED
    assert reported.failure is not None
    assert reported.failure.message.startswith("the checkpoint's list 'SourceReaderState' of operator source")
    assert reported.failure.suppress_restarts
