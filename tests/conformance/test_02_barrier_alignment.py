"""Area 02: barriers at the input of one task, through a real gate.

A blocked channel keeps its elements in its own queue, where Flink 1.9 sets them aside for all channels together. So the
order between channels may differ, and the log of those cases is compared per channel, triggers and aborts in place.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import Any

import pytest

from flykka.actors.exchange.barriers import (
    AbortCheckpointOnBarrier,
    BarrierAction,
    BarrierAligner,
    BarrierTracker,
    BlockChannel,
    EndOfPartitionMode,
    TriggerCheckpointOnBarrier,
    UnblockAllChannels,
)
from flykka.actors.exchange.input_gate import InputGate
from flykka.messages.batch import BatchRef
from flykka.messages.exchange import Buffer, CancelCheckpointMarker, CheckpointBarrier, EndOfPartition
from tests.actors.exchange.builders import batch, gate_descriptor, response
from tests.conformance.case_files import Case, UnknownWordError, cases_of, only_known_words

NOT_YET = {
    "unaligned": "unaligned barriers overtake data: a later piece",
    "unaligned-cancel": "as above",
}
"""Topics that are not covered, and why."""

EXCEPTIONS = {
    "align-limit-break-checkpoint-at-alignment-limit": (
        "what an alignment can hold back is bounded by credits, in batches; there is no limit in bytes to exceed"
    ),
}
"""Cases of covered topics that the design leaves out, and why."""

CASES = cases_of("02_barrier_alignment")
COVERED = [case for case in CASES if case["topic"] not in NOT_YET and case["id"] not in EXCEPTIONS]

GIVEN = {"handler", "channels", "end_of_partition", "blocked_channels_are_not_read", "seconds_per_step"}
HANDLERS: dict[str, type[BarrierAligner | BarrierTracker]] = {"aligning": BarrierAligner, "tracking": BarrierTracker}

Log = list[list[Any]]


class TaskInput:
    """A gate whose barriers go to a handler, and what an operator behind it sees."""

    def __init__(self, given: Case, elements: int) -> None:
        only_known_words("given", given, GIVEN)
        channels = given["channels"]
        self.gate = InputGate(gate_descriptor(channels), exclusive_credit=elements, floating_credit=0)
        self.gate.request_partitions()
        self.handler = HANDLERS[given["handler"]](channels, EndOfPartitionMode[given["end_of_partition"].upper()])
        self.log: Log = []
        self.latest_after_output: dict[str, int] = {}
        self.set_aside: dict[str, list[int]] = {}
        self.alignment_seconds: dict[str, float] = {}
        self._is_over = False
        self._now_ms = 0
        self._ms_per_step = 1000 * given.get("seconds_per_step", 0)
        # What the case calls the elements that are queued: their steps.
        self._steps: list[deque[int]] = [deque() for _ in range(channels)]
        self._sequence = [0] * channels

    def arrive(self, step: int, word: str, channel: int, *details: int) -> None:
        self._now_ms = step * self._ms_per_step
        self._steps[channel].append(step)
        buffer = _buffer(word, step, *details)
        self.gate.on_buffer(response(buffer, self._sequence[channel], channel))
        self._sequence[channel] += 1
        self._read_all()

    def end(self) -> None:
        """The input is over: what is held back comes out, and barriers mean nothing any more."""
        self._is_over = True
        self.gate.unblock_all()
        self._read_all()

    def _read_all(self) -> None:
        while (element := self.gate.poll()) is not None:
            channel, buffer = element
            step = self._steps[channel].popleft()
            if not isinstance(buffer, BatchRef) and not self._is_over:
                assert isinstance(buffer, CheckpointBarrier | CancelCheckpointMarker | EndOfPartition)
                for action in self.handler.handle(channel, buffer, self._now_ms):
                    self._perform(action)
                self.handler.check()
            if isinstance(buffer, BatchRef | EndOfPartition):
                self.log.append(["out", step])
                self.latest_after_output[str(step)] = self.handler.latest_checkpoint_id
            self.gate.check()

    def _perform(self, action: BarrierAction) -> None:
        match action:
            case TriggerCheckpointOnBarrier(barrier=barrier, alignment_start_ms=start_ms):
                key = str(barrier.checkpoint_id)
                self.log.append(["trigger", barrier.checkpoint_id])
                self.alignment_seconds[key] = (self._now_ms - start_ms) / 1000
                self.set_aside[key] = sorted(step for steps in self._steps for step in steps)
            case AbortCheckpointOnBarrier(checkpoint_id=checkpoint_id, reason=reason):
                self.log.append(["abort", checkpoint_id, reason.value])
            case BlockChannel(channel=channel):
                self.gate.block(channel)
            case UnblockAllChannels():
                self.gate.unblock_all()


def _buffer(word: str, step: int, *details: int) -> Buffer:
    match (word, *details):
        case ("buf",):
            return batch(str(step))
        case ("bar", int(checkpoint_id)):
            return CheckpointBarrier(checkpoint_id=checkpoint_id, timestamp_ms=0)
        case ("cancel", int(checkpoint_id)):
            return CancelCheckpointMarker(checkpoint_id=checkpoint_id)
        case ("eop",):
            return EndOfPartition()
        case unknown:
            raise UnknownWordError(f"step {step}: {unknown}")


@pytest.mark.parametrize("case", COVERED, ids=lambda case: case["id"])
def test_barriers_at_one_input_do_what_the_case_says(case: Case) -> None:
    steps, expect = case["steps"], case["expect"]
    task = TaskInput(case["given"], len(steps))

    after_step = []
    for number, step in enumerate(steps):
        task.arrive(number, *step)
        blocked = task.handler.blocked_channels if isinstance(task.handler, BarrierAligner) else frozenset()
        after_step.append((blocked, task.handler.latest_checkpoint_id))
    pending, open_channels = task.handler.pending_checkpoints, task.handler.open_channels
    task.end()

    for word, wanted in expect.items():
        match word:
            case "log" if _sets_aside(case["given"]):
                assert _per_channel(task.log, steps) == _per_channel(wanted, steps)
            case "log":
                assert task.log == wanted
            case "latest_checkpoint_id_after_output":
                assert {step: task.latest_after_output[step] for step in wanted} == wanted
            case "latest_checkpoint_id_after_step":
                assert {step: after_step[int(step)][1] for step in wanted} == wanted
            case "blocked_after_step":
                assert {step: sorted(after_step[int(step)][0]) for step in wanted} == wanted
            case "not_blocked_after_step":
                assert not any(after_step[int(step)][0] & set(channels) for step, channels in wanted.items())
            case "buffered_during_alignment":
                assert {checkpoint: task.set_aside[checkpoint] for checkpoint in wanted} == wanted
            case "alignment_seconds":
                assert {checkpoint: task.alignment_seconds[checkpoint] for checkpoint in wanted} == wanted
            case "pending_after":
                assert list(pending) == wanted
            case "open_channels_after":
                assert open_channels == wanted
            case _:
                raise UnknownWordError(f"expect: {word}")


def _sets_aside(given: Case) -> bool:
    return given["handler"] == "aligning" and not given.get("blocked_channels_are_not_read")


def _per_channel(log: Log, steps: list[list[Any]]) -> dict[int, Log]:
    """The log as each channel sees it: its own elements, and every trigger and abort."""
    channels = {step[1] for step in steps}
    return {
        channel: [entry for entry in log if entry[0] != "out" or steps[entry[1]][1] == channel] for channel in channels
    }


def test_what_is_not_covered_is_known_by_topic() -> None:
    left_out = Counter(case["topic"] for case in CASES if case not in COVERED)

    assert left_out == {"unaligned": 3, "unaligned-cancel": 6, "aligning": 1}
    assert len(COVERED) == 24
