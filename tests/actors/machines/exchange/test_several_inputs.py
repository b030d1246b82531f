"""A task reads all its inputs through one gate."""

from __future__ import annotations

from flykka.actors.machines.effects import Ignore, Role, Tell
from flykka.actors.machines.exchange.effects import PersistInFlight, ReleaseBatch, RequestPartition
from flykka.actors.machines.exchange.input_gate import EndOfDataStatus, InputGate
from flykka.messages.checkpointing.checkpoint import AlignmentType, CheckpointOptions
from flykka.messages.tasks.exchange import CheckpointBarrier, EndOfData, EndOfPartition
from tests.actors.machines.exchange.builders import announcement, batch_ref, error, gate_descriptor, response

UNALIGNED = CheckpointBarrier(
    checkpoint_id=1, timestamp_ms=0, options=CheckpointOptions(alignment=AlignmentType.UNALIGNED)
)


def union(*sizes: int, exclusive: int = 5, read_first: frozenset[int] = frozenset()) -> InputGate:
    gates = [gate_descriptor(size, number, sum(sizes[:number])) for number, size in enumerate(sizes)]
    made = InputGate(gates, exclusive, 0, read_first=read_first)
    made.request_partitions()
    return made


def test_channels_are_numbered_across_the_gates() -> None:
    gates = [gate_descriptor(2, gate=0), gate_descriptor(1, gate=1, first_producer=2)]

    requests = InputGate(gates).request_partitions()

    assert [r.channel for r in requests if isinstance(r, RequestPartition)] == [0, 1, 2]


def test_gates_take_turns_regardless_of_their_number_of_channels() -> None:
    inputs = union(1, 2)
    for number in range(2):
        for channel in range(3):
            inputs.on_buffer(response(batch_ref(f"{channel}"), number, channel))

    channels = [polled[0] for _ in range(6) if (polled := inputs.poll())]

    assert channels == [0, 1, 0, 2, 1, 2]
    assert [inputs.gate_of(channel) for channel in range(3)] == [0, 1, 1]


def test_a_gate_with_blocked_channels_is_skipped_until_they_resume() -> None:
    inputs = union(1, 1)
    inputs.on_buffer(response(batch_ref("a"), 0, 0))
    inputs.on_buffer(response(batch_ref("b"), 0, 1))

    inputs.block(0)
    while_blocked = [inputs.poll(), inputs.poll()]
    inputs.unblock_all()

    assert while_blocked == [(1, batch_ref("b")), None]
    assert inputs.poll() == (0, batch_ref("a"))


def test_an_unaligned_checkpoint_persists_in_flight_data_of_every_gate() -> None:
    inputs = union(1, 2)
    for channel, barrier in enumerate([False, True, False]):
        inputs.on_buffer(response(batch_ref(f"before-{channel}"), 0, channel))
        if barrier:
            inputs.on_buffer(response(UNALIGNED, 1, channel))

    begun = inputs.start_persisting(1)
    later = inputs.on_buffer(response(batch_ref("later-0"), 1, 0)) + inputs.on_buffer(
        response(batch_ref("behind-1"), 2, 1)
    )

    persisted = [each for each in [*begun, *later] if isinstance(each, PersistInFlight)]
    assert [(each.gate, each.batch) for each in persisted] == [
        (0, batch_ref("before-0")),
        (1, batch_ref("before-1")),
        (1, batch_ref("before-2")),
        (0, batch_ref("later-0")),
    ]


def test_a_task_does_not_end_while_a_gate_has_data() -> None:
    inputs = union(1, 1)
    inputs.on_buffer(response(EndOfData(), 0, 0))
    inputs.poll()
    after_one = inputs.end_of_data_status
    inputs.on_buffer(response(EndOfData(drain=False), 0, 1))
    inputs.poll()

    assert after_one is EndOfDataStatus.NOT_END_OF_DATA
    assert inputs.end_of_data_status is EndOfDataStatus.STOPPED


def test_a_task_is_finished_when_all_its_gates_are() -> None:
    inputs = union(1, 1)
    for channel in (0, 1):
        inputs.on_buffer(response(EndOfPartition(), 0, channel))

    inputs.poll()
    after_one = inputs.is_finished
    inputs.poll()

    assert not after_one
    assert inputs.is_finished


def test_a_failed_gate_is_not_read_and_fails_the_task() -> None:
    inputs = union(1, 1)
    inputs.on_buffer(response(batch_ref("a"), 0, 0))

    inputs.on_error(error(channel=0))

    assert inputs.failure is not None
    assert not inputs.has_data


def test_a_task_without_inputs_drops_foreign_data() -> None:
    inputs = InputGate([])

    dropped = inputs.on_buffer(response(batch_ref()))
    others = inputs.on_backlog(announcement(1)) + inputs.on_error(error())

    assert isinstance(dropped[0], Tell)
    assert dropped[0].to is Role.SENDER
    assert dropped[1:] == [ReleaseBatch(batch=batch_ref())]
    assert all(isinstance(effect, Ignore) for effect in others)
    assert inputs.is_finished


def test_other_inputs_wait_until_the_prioritised_input_is_processed() -> None:
    inputs = union(1, 1, 1, read_first=frozenset([1, 2]))
    inputs.on_buffer(response(batch_ref("main"), 0, 0))
    inputs.on_buffer(response(UNALIGNED, 1, 0))
    for channel in (1, 2):
        inputs.on_buffer(response(batch_ref(f"variable-{channel}"), 0, channel))

    first = [inputs.poll(), inputs.poll(), inputs.poll()]
    for channel in (1, 2):
        inputs.on_buffer(response(EndOfPartition(), 1, channel))
    ended = [inputs.poll(), inputs.poll(), inputs.poll()]
    inputs.credit_returned(2)
    half = inputs.poll()
    inputs.check()
    inputs.credit_returned(1)
    inputs.check()

    assert first == [(1, batch_ref("variable-1")), (2, batch_ref("variable-2")), None]
    assert ended == [(1, EndOfPartition()), (2, EndOfPartition()), None]
    assert half is None
    assert inputs.has_data
    assert inputs.poll() is not None


def test_an_empty_prioritised_input_ends_at_once() -> None:
    inputs = union(1, 1, read_first=frozenset([0]))
    inputs.on_buffer(response(batch_ref("main"), 0, 1))
    before = inputs.poll()

    inputs.on_buffer(response(EndOfPartition(), 0, 0))

    assert before is None
    assert [inputs.poll(), inputs.poll()] == [(0, EndOfPartition()), (1, batch_ref("main"))]
