"""Tasks read broadcast variables first and without event time; the producers of the variables finish."""

from __future__ import annotations

from dataclasses import replace

from flykka.actors.machines.attempt.events import StartTask
from flykka.messages.attempt.answers import ChainOpened
from flykka.messages.attempt.commands import AdvanceWatermark, CloseChain, ProcessBatch
from flykka.messages.graph.job_graph import JobEdge, OperatorKind, ResultPartitionType, ShipStrategy
from flykka.messages.tasks.exchange import WATERMARK_MAX, EndOfData, EndOfPartition, Watermark
from flykka.messages.tasks.source import NoMoreSplits
from flykka.messages.tasks.task import InputGateDescriptor, TaskDeploymentDescriptor
from flykka.messages.wire.ids import JobVertexId
from tests.actors.machines.attempt import attempt_machine
from tests.actors.machines.attempt.attempt_machine import ATTEMPT, SOURCE, Harness, batch, finished, to_bridge

BLOCKING = ResultPartitionType.BLOCKING


def reader() -> TaskDeploymentDescriptor:
    """Return a descriptor whose channel 0 is the main input and whose channel 1 is a broadcast variable."""
    made = attempt_machine.descriptor(OperatorKind.PROCESS, 2, 1)
    channels = made.inputs[0].channels
    main = JobEdge(source=JobVertexId("main"), source_output=0, ship_strategy=ShipStrategy.REBALANCE)
    variable = replace(
        main,
        source=JobVertexId("rates"),
        ship_strategy=ShipStrategy.BROADCAST,
        result_partition_type=BLOCKING,
        broadcast_variable="rates",
    )
    gates = (
        InputGateDescriptor(gate=0, channels=channels[:1]),
        InputGateDescriptor(gate=1, channels=channels[1:], consumed_partition_type=BLOCKING),
    )
    return replace(made, inputs=gates, vertex=replace(made.vertex, inputs=(main, variable)))


def test_a_broadcast_variable_is_complete_before_input_rows_are_processed() -> None:
    task = Harness(reader())
    task.feed(StartTask(), ChainOpened())
    before = to_bridge(task.arrive(0, batch("main"), Watermark(timestamp_ms=5)))

    of_variable = to_bridge(task.arrive(1, batch("rates"), EndOfData(), EndOfPartition()))
    behind = to_bridge(task.feed(finished(0), finished(1)))

    assert before == []
    assert [(each.gate, each.batch) for each in of_variable if isinstance(each, ProcessBatch)] == [(1, batch("rates"))]
    assert [(each.gate, each.batch) for each in behind if isinstance(each, ProcessBatch)] == [(0, batch("main"))]
    assert [each.watermark_ms for each in behind if isinstance(each, AdvanceWatermark)] == [5]


def test_a_broadcast_variable_does_not_affect_watermarks() -> None:
    task = Harness(reader())
    task.feed(StartTask(), ChainOpened())

    effects = to_bridge(task.arrive(1, Watermark(timestamp_ms=WATERMARK_MAX), EndOfData(), EndOfPartition()))
    advanced = to_bridge(task.arrive(0, Watermark(timestamp_ms=7)))

    assert effects == []
    assert [each.watermark_ms for each in advanced if isinstance(each, AdvanceWatermark)] == [7]


def test_a_producer_of_a_broadcast_variable_finishes_without_a_checkpoint() -> None:
    made = attempt_machine.descriptor(OperatorKind.SOURCE, 0, 1, feeds_broadcast_variables=True)
    task = Harness(replace(made, outputs=(replace(made.outputs[0], partition_type=BLOCKING),)))
    task.feed(StartTask(), ChainOpened())

    effects = task.feed(NoMoreSplits(attempt=ATTEMPT, operator_id=SOURCE))

    assert to_bridge(effects) == [CloseChain(cancel=False)]
