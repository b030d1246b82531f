"""The cause of a turn is an effect of an earlier turn."""

from __future__ import annotations

from pathlib import Path

import pytest

from flykka.runtime.context import ActorContext
from flykka.runtime.replay.session.causes import causes_of
from flykka.runtime.testing.seeded import SeededSystem
from flykka.runtime.trace import effects
from flykka.runtime.trace.effects import Effect
from flykka.runtime.trace.file.reader import TraceReader
from flykka.runtime.trace.record.recorder import TraceRecorder
from flykka.runtime.trace.text import message_name
from tests.runtime.scripted_actors import says, scripted_actor


def begins_work(context: ActorContext) -> None:
    context.pipe_to_self(lambda: 1, lambda _: says("done"), lambda _: says("failed"))
    context.pipe_to_self(lambda: [][0], lambda _: [][0], lambda _: [][0])
    context.ref.tell(says("meanwhile"))


def looks_after(context: ActorContext) -> None:
    child = context.spawn(scripted_actor([]), "child")
    context.watch(child)
    context.unwatch(child)


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> TraceReader:
    path: Path = tmp_path_factory.mktemp("traces") / "run.trace"
    script = {"work": begins_work, "look": looks_after, "wait": lambda context: context.set_receive_timeout("5ms")}
    with SeededSystem(1, recorder=TraceRecorder(path)) as system:
        worker = system.spawn(scripted_actor([], script), "worker")
        worker.tell(says("look"))
        worker.tell(says("work"))
        system.spawn(scripted_actor([], script), "waiter").tell(says("wait"))
        system.advance(10)
    return TraceReader.open(path)


@pytest.mark.parametrize(
    ("text", "by"),
    [
        ("meanwhile", effects.Send),
        ("done", effects.Pipe),
        ("PipeFailed", effects.Pipe),
        ("ReceiveTimeout", effects.SetReceiveTimeout),
        ("Unwatch", effects.Unwatch),
        ("Watch", effects.Watch),
    ],
)
def test_every_cause_names_the_effect_that_led_to_the_next_turn(
    trace: TraceReader, text: str, by: type[Effect]
) -> None:
    turn = next(t for t in trace if text in (getattr(t.message, "text", None), message_name(t.message)))

    assert type(causes_of(trace, turn)[0].effect) is by
