"""Counts the files and names that a batch, a checkpoint, `.process(f)` and a SQL text pass through.

`python scripts/journeys.py [--files]`

The script runs a small job on a local cluster with Spark: a folder of parquet files, a keyed running sum, a file sink.
A profile hook tracks every turn and all blocking work. The job is recorded, so that turns have numbers and each message
in a mailbox names the turn that sent it, its cause. Paths are traced backwards from their last message, along causes.

- A batch's path goes from the discovery of its file (`SplitsDiscovered`) to the message that carries it to the next
  task (`BufferResponse`).
- A checkpoint's path goes from the turn that triggers it (`SnapshotOperatorCoordinators`) to its completion
  (`MetadataWritten`). It completes when all tasks have acknowledged it, so the paths from all acknowledgements are
  joined. Only a checkpoint whose barrier waited for no batch is used, because such a batch would be one of its causes.

A file, including files of the kernel, counts if one of its functions is on a call stack that leads to a hop of the
path. For each hop these are the stacks on which

1. the message enters the mailbox of its recipient, or blocking work is submitted or done, with the work's function;
2. the message, and each value in it, was created in that turn or work;
3. the arguments of the functions on these stacks were created or returned in that turn or work, recursively: the effect
   by which a machine sends the message, the rows that an operator returned before they became a batch.

So the counted files are those that a reader opens to follow the batch. Other files that a turn enters do not count,
such as metrics, timers and messages to other actors, and neither do files whose functions are not called, such as those
of most messages.

A second job tracks a program by the same rule. The path of `.process(f)` on a KeyedStream has four hops: its code is
bound in the registry, the operator is created from that code when the chain is opened, Spark gets the function of a
batch, and f is called in the Spark worker, where the stack above f counts. The path of a SQL text has one hop: the
stream that `env.sql(text)` returns. Files that the call enters to check the text, or to derive types, do not count.

The names of a result are those of the classes that contain its batch between the operator and the next task's message.
The names of a snapshot are those of the classes with its checkpoint id within the task that acknowledges last. Both
include the names of the engine's functions, unless they equal the command's. Envelopes of messages do not count.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import flykka

PACKAGES = ("actors", "flykka", "messages", "runtime", "spark_bridge")
"""The packages whose files count; `flykka` has links to the others."""

CHECKPOINTS = 6

ASKED = "()"

ENVELOPES = frozenset({"LeaderSessionMessage", "Stage", "Tell", "WorkAnswered"})

Unit = tuple[str, str]
"""A file and a function in it."""

_PLAIN = frozenset({type(None), bool, int, float, str, bytes, type, list, dict, set, tuple, frozenset})
"""Objects of these classes are not tracked."""
_MAX_DEPTH = 8


@dataclass(frozen=True)
class Name:
    """A name on a path: a class with the classes of the values in its instance, or a called function."""

    text: str
    holds: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Hop:
    """A message or submitted work: the turn that caused it, the functions on its stacks, the names before it."""

    message: str
    receiver: str
    cause: int | None
    units: frozenset[Unit]
    names: tuple[Name, ...] = ()
    checkpoint_id: int | None = None

    def holds(self, held: str) -> bool:
        """Return True if an object created for this hop contains an instance of the class `held`."""
        return any(held in name.holds for name in self.names)


@dataclass(frozen=True)
class Origin:
    """The stack on which an object was created or returned in a turn or work, and the arguments of its functions."""

    item: object
    span: object
    units: frozenset[Unit]
    arguments: tuple[object, ...]


@dataclass
class Journal:
    """The hops of a run, by the number of the turn that handled the message."""

    handled: dict[int, Hop] = field(default_factory=dict)

    def way(self, last: int, is_first: Callable[[Hop], bool]) -> list[Hop]:
        """Return the path to the turn `last`, from the nearest earlier hop that `is_first`, or an empty list."""
        hops: list[Hop] = []
        number: int | None = last
        while number in self.handled:
            hops.insert(0, self.handled[number])
            if is_first(hops[0]):
                return hops
            number = hops[0].cause
        return []


class Profiler:
    """The profile hook, which tracks where the objects of each thread's turn or work were created."""

    def __init__(self, root: Path = Path(flykka.__file__).parents[1], packages: Iterable[str] = PACKAGES) -> None:
        self._root = f"{root}/"
        self._product = tuple(f"{name}/" for name in packages)
        self._files: dict[CodeType, str | None] = {}
        self._origins: dict[int, Origin] = {}
        self._watchers: dict[CodeType, Callable[[FrameType], None]] = {}
        self._local = threading.local()

    def watch(self, function: Any, watcher: Callable[[FrameType], None]) -> None:
        """Call `watcher` with the frame of each call of a function."""
        self._watchers[function.__code__] = watcher

    def start(self) -> None:
        """Profile this thread, and threads that start later."""
        threading.setprofile(self._on_event)
        sys.setprofile(self._on_event)

    def stop(self) -> None:
        threading.setprofile(None)
        sys.setprofile(None)

    def begin_span(self) -> None:
        """Begin a turn, or blocking work, on this thread."""
        self._local.span = object()

    def hop(self, frame: FrameType, carried: object, message: str, receiver: str, cause: int | None) -> Hop:
        """Return the hop of `carried`, which is sent or submitted on the stack of a frame."""
        leaving = self._origin(carried, frame)
        units, names, seen = set(leaving.units), dict[str, Name](), set[int]()
        waiting = [*_parts(carried), *leaving.arguments]
        while waiting:
            item = waiting.pop()
            origin = self._origins.get(id(item))
            if id(item) in seen or origin is None or origin.span is not leaving.span:
                continue
            seen.add(id(item))
            units |= origin.units
            parts = list(_parts(item))
            waiting += [*parts[1:], *origin.arguments]
            if type(item).__module__.startswith("flykka"):
                name = names.setdefault(type(item).__name__, Name(type(item).__name__))
                names[name.text] = replace(name, holds=name.holds | _holdings(parts))
        checkpoint_id = getattr(carried, "checkpoint_id", None)
        return Hop(message, receiver, cause, frozenset(units), tuple(names.values()), checkpoint_id)

    def unit(self, code: CodeType | None) -> frozenset[Unit]:
        """Return a function of the product together with its file."""
        file = None if code is None else self._file(code)
        return frozenset() if code is None or file is None else frozenset({(file, code.co_qualname)})

    def _on_event(self, frame: FrameType, event: str, value: object) -> None:
        code = frame.f_code
        if event == "call":
            watcher = self._watchers.get(code)
            if watcher is not None:
                watcher(frame)
            elif code.co_name == "__init__" and code.co_filename == "<string>":
                # The function is the initialiser of a dataclass.
                self._note(frame.f_locals[code.co_varnames[0]], frame)
        elif event == "return" and type(value) not in _PLAIN and self._file(code) is not None:
            self._note(value, frame)

    def _note(self, item: object, frame: FrameType) -> None:
        span, known = getattr(self._local, "span", None), self._origins.get(id(item))
        if span is not None and (known is None or known.span is not span):
            # The origin references the object, so that its id is not reused.
            self._origins[id(item)] = self._origin(item, frame)

    def _origin(self, item: object, frame: FrameType | None) -> Origin:
        units, arguments = set[Unit](), list[object]()
        while frame is not None:
            code = frame.f_code
            unit = self.unit(code)
            if unit:
                units |= unit
                given = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
                values = frame.f_locals
                arguments += [values[each] for each in given if each != "self" and each in values]
            frame = frame.f_back
        return Origin(item, getattr(self._local, "span", None), frozenset(units), tuple(arguments))

    def _file(self, code: CodeType) -> str | None:
        if code not in self._files:
            self._files[code] = self.product_file(code.co_filename)
        return self._files[code]

    def product_file(self, path: str) -> str | None:
        """Return the name of a file of the product, or None for others."""
        name = path.removeprefix(self._root)
        return name.removeprefix("flykka/") if name.startswith(self._product) else None


def _parts(item: object, depth: int = 0) -> Iterator[object]:
    """Yield an object and all values within it, like the fields of a message."""
    yield item
    if depth < _MAX_DEPTH and isinstance(item, tuple | list):
        for each in item:
            yield from _parts(each, depth + 1)
    elif depth < _MAX_DEPTH and is_dataclass(item) and not isinstance(item, type):
        for each in fields(item):
            yield from _parts(getattr(item, each.name, None), depth + 1)


def _holdings(parts: list[object]) -> frozenset[str]:
    classes = {type(part).__name__ for part in parts[1:]}
    return frozenset(classes | ({"checkpoint_id"} if any(hasattr(part, "checkpoint_id") for part in parts) else set()))


def watch_kernel(profiler: Profiler) -> Journal:
    """Return a journal that is filled by the turns, mailboxes and blocking work of the kernel from now on."""
    from flykka.messages.kernel.leader_session import LeaderSessionMessage
    from flykka.runtime import recording
    from flykka.runtime.dispatch.dispatcher import Pipe
    from flykka.runtime.mailbox.envelope import Envelope
    from flykka.runtime.mailbox.mailbox import Mailbox

    journal, local = Journal(), threading.local()
    hops: dict[int, tuple[object, Hop]] = {}
    submitted: dict[int, tuple[object, Hop]] = {}

    def unwrapped(message: object) -> object:
        return message.message if isinstance(message, LeaderSessionMessage) else message

    def on_put(frame: FrameType) -> None:
        envelope = Envelope.wrap(frame.f_locals["entry"])
        message, receiver = unwrapped(envelope.message), str(frame.f_locals["self"].owner.ref)
        hop = profiler.hop(frame, message, type(message).__name__, receiver, envelope.cause)
        work = getattr(local, "work", None)
        if work is not None and id(work) in submitted:
            begun = submitted[id(work)][1]
            hop = replace(hop, units=hop.units | begun.units, names=(*begun.names, *hop.names))
        hops[id(envelope.message)] = envelope.message, hop

    def on_submit(frame: FrameType) -> None:
        pipe, work, cell = (frame.f_locals[each] for each in ("self", "work", "cell"))
        if frame.f_back is not None and frame.f_back.f_code is Pipe.with_work.__code__:
            # The object wraps the same work within the engine.
            submitted[id(pipe)] = pipe, submitted[id(frame.f_back.f_locals["self"])][1]
            return
        function = getattr(work, "func", work)
        name = Name(getattr(function, "__name__", "work"), frozenset({ASKED}))
        hop = profiler.hop(frame, None, name.text, str(cell.ref), cell.sequence)
        units = hop.units | profiler.unit(getattr(function, "__code__", None))
        submitted[id(pipe)] = pipe, replace(hop, units=units, names=(*hop.names, name))

    def begin(work: object) -> None:
        local.work = work
        profiler.begin_span()

    def on_turn_end(frame: FrameType) -> None:
        message = frame.f_locals["envelope"].message
        if id(message) in hops:
            journal.handled[frame.f_locals["cell"].sequence] = hops[id(message)][1]

    profiler.watch(Mailbox.put, on_put)
    profiler.watch(Pipe.__init__, on_submit)
    profiler.watch(Pipe.run, lambda frame: begin(frame.f_locals["self"]))
    profiler.watch(recording.begin_record, lambda _: begin(None))
    profiler.watch(recording.end_record, on_turn_end)
    return journal


def run_job(folder: Path) -> None:
    """Run a job with two tasks.

    A file arrives after every second checkpoint, so that some checkpoints find the tasks idle.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    from flykka import FileSink, FileSource, StreamExecutionEnvironment, WatermarkStrategy
    from flykka.messages.control.job import CheckpointCompleted

    arrivals = folder / "arrivals"
    arrivals.mkdir()

    def put(number: int) -> None:
        pq.write_table(pa.table({"k": ["a", "b"] * 10, "n": list(range(20))}), folder / "whole")
        (folder / "whole").rename(arrivals / f"{number:03}.parquet")

    def on_event(message: object) -> None:
        if isinstance(message, CheckpointCompleted) and message.checkpoint_id >= CHECKPOINTS:
            (arrivals / "_SUCCESS").touch()
        elif isinstance(message, CheckpointCompleted) and message.checkpoint_id % 2 == 0:
            put(message.checkpoint_id)

    put(0)
    with StreamExecutionEnvironment.get_execution_environment(
        "local[1]", task_managers=1, slots_per_task_manager=2, record=str(folder / "run.trace")
    ) as env:
        env.enable_checkpointing("6s").set_checkpoint_dir(str(folder / "checkpoints"))
        source = FileSource.parquet(str(arrivals), schema="k string, n bigint")
        (
            env.from_source(
                source.monitor_continuously("100ms", until="_SUCCESS"), WatermarkStrategy.no_watermarks(), "numbers"
            )
            .key_by("k")
            .sum("n")
            .sink_to(FileSink.parquet(str(folder / "output")))
        )
        client = env.execute_async("journeys")
        client.add_listener(on_event)
        client.wait()


def run_program(profiler: Profiler, folder: Path) -> tuple[list[str], list[str]]:
    """Run a program with a SQL text and `.process(f)`; return the files on the paths of both."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyspark.sql.classic.dataframe import DataFrame

    from flykka import FileSink, FileSource, KeyedProcessFunction, StreamExecutionEnvironment, WatermarkStrategy
    from flykka.spark_bridge.operators.code_registry import CodeRegistry
    from flykka.spark_bridge.operators.process import KeyedProcessCode

    units, stack = set[Unit](), folder / "stack"

    class Follow(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Iterator[dict[str, Any]]:
            frame: FrameType | None = sys._getframe()
            with stack.open("w") as lines:
                while frame is not None:
                    lines.write(f"{frame.f_code.co_filename}\n")
                    frame = frame.f_back
            yield {"n": value["n"]}

    def follow(frame: FrameType, carried: object = None) -> set[Unit]:
        return set(profiler.hop(frame, carried, "", "", None).units)

    def on_bind(frame: FrameType) -> None:
        if isinstance(frame.f_locals["code"], KeyedProcessCode):
            units.update(follow(frame, frame.f_locals["code"]))

    profiler.watch(CodeRegistry.bind, on_bind)
    profiler.watch(KeyedProcessCode.operator, lambda frame: units.update(follow(frame)))
    profiler.watch(DataFrame.mapInArrow, lambda frame: units.update(follow(frame, frame.f_locals["func"])))
    (folder / "numbers").mkdir()
    pq.write_table(pa.table({"k": ["a", "b"] * 10, "n": list(range(20))}), folder / "numbers" / "0.parquet")
    with StreamExecutionEnvironment.get_execution_environment("local[1]") as env:
        source = FileSource.parquet(str(folder / "numbers"), schema="k string, n bigint")
        numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
        env.create_temporary_view("numbers", numbers)
        profiler.begin_span()
        of_sql = {file for file, _ in follow(sys._getframe(), env.sql("SELECT k, sum(n) AS n FROM numbers GROUP BY k"))}
        profiler.begin_span()
        numbers.key_by("k").process(Follow(), "n bigint").sink_to(FileSink.parquet(str(folder / "followed")))
        env.execute("program")
    of_worker = filter(None, map(profiler.product_file, stack.read_text().splitlines()))
    return sorted({file for file, _ in units}.union(of_worker)), sorted(of_sql)


@dataclass(frozen=True)
class Journey:
    """Paths with the same last hop: their files, their messages in order, and the names of the tracked values."""

    files: tuple[str, ...]
    messages: tuple[str, ...]
    names: tuple[str, ...]


def journey(ways: list[list[Hop]], inner: list[Hop], held: str) -> Journey:
    """Join paths; the names are those in the hops `inner` that contain `held`."""
    names = [name for hop in inner for name in hop.names]
    commands = {name.text for name in names}
    classes = {name.text for name in names if held in name.holds} - ENVELOPES
    functions = dict.fromkeys(name.text for name in names if ASKED in name.holds)
    return Journey(
        files=tuple(sorted({file for way in ways for hop in way for file, _ in hop.units})),
        messages=tuple(dict.fromkeys(hop.message for way in ways for hop in way)),
        names=(*sorted(classes), *(f"{each}()" for each in functions if each.title().replace("_", "") not in commands)),
    )


def batch_journey(journal: Journal) -> Journey:
    """Return the shortest path of a batch."""
    ways = [
        journal.way(number, lambda hop: hop.message == "SplitsDiscovered")
        for number, hop in sorted(journal.handled.items())
        if hop.message == "BufferResponse" and hop.holds("BatchRef")
    ]
    way = min(filter(None, ways), key=len)
    work = max(place for place, hop in enumerate(way) if hop.holds(ASKED))
    return journey([way], way[work:-1], "BatchRef")


def checkpoint_journey(journal: Journal) -> Journey:
    """Return the paths of the first checkpoint whose barrier waited for no batch."""

    def way(number: int, checkpoint_id: int | None) -> list[Hop]:
        return journal.way(
            number, lambda hop: hop.message == "SnapshotOperatorCoordinators" and hop.checkpoint_id == checkpoint_id
        )

    for number, end in sorted(journal.handled.items()):
        last = way(number, end.checkpoint_id) if end.message == "MetadataWritten" else []
        if last:
            others = (
                way(each, hop.checkpoint_id)
                for each, hop in journal.handled.items()
                if hop.message == "AcknowledgeCheckpoint" and hop.checkpoint_id == end.checkpoint_id
            )
            acknowledged = next(place for place, hop in enumerate(last) if hop.message == "AcknowledgeCheckpoint")
            task = _task_of(last[acknowledged - 1])
            barrier = next(place for place, hop in enumerate(last) if _task_of(hop) == task)
            return journey([last, *filter(None, others)], last[barrier + 1 : acknowledged + 1], "checkpoint_id")
    raise SystemExit("every checkpoint waited for a batch: the machine is too busy, run it again")


def _task_of(hop: Hop) -> str:
    """Return the path of the task that gets the message, directly or through its bridge."""
    return hop.receiver.partition("#")[0].removesuffix("/bridge")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", action="store_true", help="list the files, the messages and the names of each way")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    profiler = Profiler()
    journal = watch_kernel(profiler)
    with tempfile.TemporaryDirectory(prefix="flykka-journeys-") as folder:
        profiler.start()
        run_job(Path(folder))
        batch, checkpoint = batch_journey(journal), checkpoint_journey(journal)
        of_process, of_sql = run_program(profiler, Path(folder))
        profiler.stop()
    for what, followed, found in (
        ("batch", "stage's result", batch),
        ("checkpoint", "snapshot inside a task", checkpoint),
    ):
        print(f"{what}: {len(found.files)} files; names of a {followed}: {len(found.names)}")
        if options.files:
            for title, lines in (("messages", found.messages), ("names", found.names), ("files", found.files)):
                print(f"  {title}", *lines, sep="\n    ")
    for what, files in ((".process(f)", of_process), ("SQL text", of_sql)):
        print(f"{what}: {len(files)} files")
        if options.files:
            print("  files", *files, sep="\n    ")


if __name__ == "__main__":
    main()
