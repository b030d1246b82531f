"""Checkpoint barriers at the input of a task, with a real gate.

A blocked channel keeps its elements in its own queue, while Flink 1.9 buffers them for all channels together. So the
order between channels may differ, and the log of those cases is compared per channel, with triggers and aborts in
place. Since Flink 1.11 the sender stops after a barrier; data that arrives nevertheless is read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from flykka.actors.machines.effects import StartTimer
from flykka.actors.machines.exchange.checkpoint_barrier_handler import (
    AbortCheckpointOnBarrier,
    BarrierAction,
    BarrierAligner,
    BarrierEvent,
    BarrierTracker,
    BlockChannel,
    CheckpointBarrierHandler,
    EndOfPartitionMode,
    PrioritizeBarrier,
    StartPersisting,
    StopPersisting,
    UnblockAllChannels,
)
from flykka.actors.machines.exchange.effects import GateEffect, PersistInFlight
from flykka.actors.machines.exchange.input_gate import InputGate
from flykka.messages.checkpointing.checkpoint import AlignmentType, CheckpointOptions
from flykka.messages.tasks.exchange import BatchRef, Buffer, CancelCheckpointMarker, CheckpointBarrier, EndOfPartition
from flykka.messages.wire.ids import BatchId
from tests.actors.machines.exchange.builders import gate_descriptor, response
from tests.conformance.case_files import Case, UnknownWordError, is_since, only_known_words

GIVEN = {
    "handler",
    "channels",
    "end_of_partition",
    "blocked_channels_are_not_read",
    "seconds_per_step",
}

Log = list[list[Any]]


class TaskInput:
    """A gate and a barrier handler, and the input of the operator downstream of them."""

    def __init__(self, given: Case, elements: int, *, keeps_blocked: bool) -> None:
        only_known_words("given", given, GIVEN)
        channels = given["channels"]
        self.gate = InputGate([gate_descriptor(channels)], exclusive_credit=max(1, elements), floating_credit=0)
        self.gate.request_partitions()
        self.handler = _handler(given)
        self.log: Log = []
        self.latest_after_output: dict[str, int] = {}
        self.set_aside: dict[str, list[int]] = {}
        self.in_flight: dict[str, list[int]] = {}
        self.alignment_seconds: dict[str, float] = {}
        self.blocked: set[int] = set()
        self._alignment = AlignmentType.UNALIGNED if given["handler"] == "unaligned" else AlignmentType.ALIGNED
        self._keeps_blocked = keeps_blocked
        self._is_over = False
        self._now_ms = 0
        self._ms_per_step = 1000 * given.get("seconds_per_step", 0)
        # The elements are named by their steps in the case. An unaligned barrier is read at once.
        self._steps: list[deque[int]] = [deque() for _ in range(channels)]
        self._sequence = [0] * channels

    def arrive(self, step: int, word: str, channel: int, *details: int) -> None:
        self._now_ms = step * self._ms_per_step
        self._steps[channel].append(step)
        buffer = self._buffer(word, step, *details)
        self._note(self.gate.on_buffer(response(buffer, self._sequence[channel], channel)))
        self._sequence[channel] += 1
        self._read_all()

    def end(self) -> None:
        """End the input: blocked data is released, and later barriers are ignored."""
        self._is_over = True
        self.gate.unblock_all()
        self._read_all()

    def _buffer(self, word: str, step: int, *details: int) -> Buffer:
        match (word, *details):
            case ("buf",):
                return BatchRef(batch_id=BatchId(str(step)), rows=1, size_bytes=0)
            case ("buf", int(size_bytes)):
                return BatchRef(batch_id=BatchId(str(step)), rows=1, size_bytes=size_bytes)
            case ("bar", int(checkpoint_id)):
                options = CheckpointOptions(alignment=self._alignment)
                return CheckpointBarrier(checkpoint_id=checkpoint_id, timestamp_ms=0, options=options)
            case ("cancel", int(checkpoint_id)):
                return CancelCheckpointMarker(checkpoint_id=checkpoint_id)
            case ("eop",):
                return EndOfPartition()
            case unknown:
                raise UnknownWordError(f"step {step}: {unknown}")

    def _read_all(self) -> None:
        while (element := self.gate.poll()) is not None:
            channel, buffer = element
            step = self._steps[channel].popleft()
            if isinstance(buffer, BarrierEvent) and not self._is_over:
                self._perform(self.handler.handle(channel, buffer, self._now_ms))
                self.handler.check()
            if isinstance(buffer, BatchRef | EndOfPartition):
                self.log.append(["out", step])
                self.latest_after_output[str(step)] = self.handler.latest_checkpoint_id
            self.gate.check()

    def _perform(self, actions: Sequence[BarrierAction]) -> None:
        for action in actions:
            match action:
                case CheckpointBarrier(checkpoint_id=checkpoint_id):
                    self.log.append(["trigger", checkpoint_id])
                    aligned_ms = self._now_ms - self.handler.alignment_start_ms
                    self.alignment_seconds[str(checkpoint_id)] = aligned_ms / 1000
                    self._note_set_aside(checkpoint_id)
                case AbortCheckpointOnBarrier(checkpoint_id=checkpoint_id, reason=reason):
                    self.log.append(["abort", checkpoint_id, reason.value])
                    self._note_set_aside(checkpoint_id)
                case BlockChannel(channel=channel):
                    self.blocked.add(channel)
                    if self._keeps_blocked:
                        self.gate.block(channel)
                case UnblockAllChannels():
                    self.blocked.clear()
                    self.gate.unblock_all()
                case StartPersisting(checkpoint_id=checkpoint_id):
                    self.in_flight[str(checkpoint_id)] = []
                    self._note(self.gate.start_persisting(checkpoint_id))
                case StopPersisting():
                    self.gate.stop_persisting()
                case PrioritizeBarrier() | StartTimer():
                    raise AssertionError(f"no barrier of these cases may time out, yet: {action}")

    def _note(self, effects: Sequence[GateEffect]) -> None:
        for effect in effects:
            if isinstance(effect, PersistInFlight):
                self.in_flight[str(effect.checkpoint_id)].append(int(effect.batch.batch_id))

    def _note_set_aside(self, checkpoint_id: int) -> None:
        self.set_aside[str(checkpoint_id)] = sorted(step for channel in self.blocked for step in self._steps[channel])


def _handler(given: Case) -> CheckpointBarrierHandler:
    end_of_partition = EndOfPartitionMode[given["end_of_partition"].upper()]
    match given["handler"]:
        case "aligning" | "unaligned":
            # The barriers themselves state whether they are aligned or unaligned.
            return BarrierAligner(given["channels"], end_of_partition)
        case "tracking":
            return BarrierTracker(given["channels"], end_of_partition)
        case unknown:
            raise UnknownWordError(f"handler: {unknown}")


def run_case(case: Case) -> None:
    given, steps = case["given"], case["steps"]
    task = TaskInput(given, len(steps), keeps_blocked=_sets_aside(case))

    blocked: list[set[int]] = []
    latest: list[int] = []
    for number, step in enumerate(steps):
        task.arrive(number, *step)
        blocked.append(set(task.blocked))
        latest.append(task.handler.latest_checkpoint_id)
    pending, open_channels = task.handler.pending_checkpoints, task.handler.open_channels
    task.end()

    for word, wanted in case["expect"].items():
        match word:
            case "log" if _sets_aside(case):
                assert _per_channel(task.log, steps) == _per_channel(wanted, steps)
            case "log":
                assert task.log == wanted
            case "latest_checkpoint_id_after_output":
                assert {step: task.latest_after_output[step] for step in wanted} == wanted
            case "latest_checkpoint_id_after_step":
                assert {step: latest[int(step)] for step in wanted} == wanted
            case "blocked_after_step":
                assert {step: sorted(blocked[int(step)]) for step in wanted} == wanted
            case "not_blocked_after_step":
                assert not any(blocked[int(step)] & set(channels) for step, channels in wanted.items())
            case "buffered_during_alignment":
                assert {checkpoint: task.set_aside[checkpoint] for checkpoint in wanted} == wanted
            case "in_flight":
                assert {checkpoint: task.in_flight.get(checkpoint) for checkpoint in wanted} == wanted
            case "alignment_seconds":
                assert {checkpoint: task.alignment_seconds[checkpoint] for checkpoint in wanted} == wanted
            case "pending_after":
                assert list(pending) == wanted
            case "open_channels_after":
                assert open_channels == wanted
            case "any_trigger":
                assert any(entry[0] == "trigger" for entry in task.log) == wanted
            case "any_abort":
                assert any(entry[0] == "abort" for entry in task.log) == wanted
            case _:
                raise UnknownWordError(f"expect: {word}")


def _sets_aside(case: Case) -> bool:
    given = case["given"]
    is_read = given.get("blocked_channels_are_not_read") or is_since(case, 1, 11)
    return given["handler"] == "aligning" and not is_read


def _per_channel(log: Log, steps: list[list[Any]]) -> dict[int, Log]:
    """Return the log of each channel: its own elements, and every trigger and abort."""
    channels = {step[1] for step in steps}
    return {
        channel: [entry for entry in log if entry[0] != "out" or steps[entry[1]][1] == channel] for channel in channels
    }
