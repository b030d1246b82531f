"""A bridge for forks of recorded jobs whose own bridges are not replayed: the machine of the product, without rows.

How long a stage takes is what such a stage took in the recording, in the median. So a fork says what the actors would
have decided, and nothing about the data.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from statistics import median_low
from typing import TYPE_CHECKING

from flykka.actors.machines.attempt.attempt import Attempt, AttemptEvent
from flykka.actors.machines.attempt.effects import AttemptEffect, Begin, Process, Read, TellTask
from flykka.actors.task.bridge import engine_call
from flykka.actors.task.empty_engine import EmptyEngine
from flykka.messages.tasks.bridge import EngineFailed, WorkDone
from flykka.messages.tasks.simulation import StageOver
from flykka.messages.tasks.stage import (
    AdvanceWatermark,
    BridgeCommand,
    BridgeOpened,
    OpenBridge,
    ReadSplits,
    RunStage,
    SnapshotState,
    StageFailed,
    StageFinished,
)
from flykka.messages.tasks.task import TaskDeploymentDescriptor
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.message import Message
from flykka.runtime.trace.effects import Send
from flykka.runtime.trace.reader import Trace

if TYPE_CHECKING:
    from flykka.runtime.trace.replay.role import PlayOn, Vacancy

_KEPT_TIMES = 1_000
_OPEN = OpenBridge(restore=None, restored_checkpoint_id=None)

Pace = Mapping[str, int]
"""How many ms a command takes, by the name of its class."""


def pace_of(trace: Trace) -> Pace:
    """How long the stages of a recording took, in the median."""
    begun: dict[tuple[str, int], tuple[str, int]] = {}
    took: dict[str, list[int]] = {}
    for turn in trace:
        message = turn.message
        match message:
            case ReadSplits() | RunStage() | AdvanceWatermark() | SnapshotState():
                begun[turn.recipient.path, message.stage] = (type(message).__name__, turn.now_ms)
            case StageFinished(stage=stage) if turn.sender is not None:
                name, begun_ms = begun.pop((turn.sender.path, stage), (None, 0))
                if name is not None and len(times := took.setdefault(name, [])) < _KEPT_TIMES:
                    times.append(max(0, turn.now_ms - begun_ms))
            case _:
                continue
    return {name: median_low(times) for name, times in took.items()}


def find_bridge(vacancy: Vacancy, pace: Pace) -> PlayOn | None:
    """A bridge for a Task whose bridge was recorded no further; None for an actor that was no bridge."""
    descriptor = next((each for each in vacancy.parent_arguments if isinstance(each, TaskDeploymentDescriptor)), None)
    return None if descriptor is None else AnsweringBridge(vacancy, descriptor, pace)


class AnsweringBridge:
    """Takes the place of a recorded bridge: what that one owed is answered first, and at once."""

    def __init__(self, vacancy: Vacancy, descriptor: TaskDeploymentDescriptor, pace: Pace) -> None:
        self._context = vacancy.context
        self._pace = pace
        self._attempt = Attempt(descriptor)
        self._engine = EmptyEngine(descriptor)
        self._stages: deque[Begin] = deque()
        said = [effect.message for each in vacancy.past for effect in each.effects if isinstance(effect, Send)]
        answered = {key for message in said for key in _keys(message)}
        heard = [each.message for each in vacancy.past if isinstance(each.message, BridgeCommand)]
        if _OPEN.wire_tag not in [command.wire_tag for command in heard]:
            # It was opened before the record begins.
            heard, answered = [_OPEN, *heard], answered | {*_keys(BridgeOpened())}
        answers = [answer for command in heard for answer in self._at_once(command)]
        if any(isinstance(message, StageFailed) for message in said):
            self._attempt.handle(EngineFailed(cause=_cause(said)), self._context.now())
            return
        for answer in answers:
            self._tell_owed(answer, answered)

    def __call__(self, message: Message) -> None:
        """A command of the Task, or the time is over that a stage takes."""
        if isinstance(message, StageOver) and self._stages:
            self._perform(self._done(self._stages.popleft()))
            if self._stages:
                self._wait()
        elif isinstance(message, BridgeCommand):
            self._perform(self._attempt.handle(message, self._context.now()))

    def _perform(self, effects: list[AttemptEffect]) -> None:
        for effect in effects:
            match effect:
                case TellTask(message=message):
                    self._context.parent.tell(message)
                case Begin(work=Read() | Process()):
                    self._stages.append(effect)
                    if len(self._stages) == 1:
                        self._wait()
                case Begin():
                    self._perform(self._done(effect))
                case _:
                    continue  # What is held or let go has no rows here.

    def _wait(self) -> None:
        command = getattr(self._stages[0].work, "command", None)
        takes_ms = self._pace.get(type(command).__name__, 0)
        self._context.timers.start_once("stage", takes_ms, StageOver())

    def _at_once(self, event: AttemptEvent) -> list[Message]:
        """What follows from a command, and from all that it begins."""
        told: list[Message] = []
        effects = deque(self._attempt.handle(event, self._context.now()))
        while effects:
            match effects.popleft():
                case TellTask(message=message):
                    told.append(message)
                case Begin() as begin:
                    effects.extend(self._done(begin))
        return told

    def _done(self, begin: Begin) -> list[AttemptEffect]:
        answer = engine_call(self._engine, begin.work)()
        return self._attempt.handle(WorkDone(work=begin.key, answer=answer), self._context.now())

    def _tell_owed(self, answer: Message, answered: set[object]) -> None:
        own, *with_it = _keys(answer)
        if own not in answered:
            self._context.parent.tell(answer)
        elif isinstance(answer, StageFinished) and answer.snapshot is not None and with_it[0] not in answered:
            self._context.parent.tell(answer.snapshot)


def _keys(answer: object) -> tuple[object, ...]:
    """What an answer is the answer to: a class, and a stage or a checkpoint; and so for a snapshot that it holds."""
    of = getattr(answer, "stage", None), getattr(answer, "checkpoint_id", None)
    snapshot = getattr(answer, "snapshot", None)
    return ((type(answer).__name__, *of), *(() if snapshot is None else _keys(snapshot)))


def _cause(said: Iterable[object]) -> SerializedThrowable:
    return next(message.cause for message in said if isinstance(message, StageFailed))
