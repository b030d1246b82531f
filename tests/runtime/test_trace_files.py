"""Reading files that are damaged, have another format or version, or are not regular files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import zlib
from pathlib import Path

import msgpack
import pytest

from flykka.messages.wire.message import Message, message
from flykka.runtime.errors import TraceError
from flykka.runtime.testing.seeded import SeededSystem
from flykka.runtime.trace.effects import Undecoded
from flykka.runtime.trace.file.frame_format import BLOCK, END, FRAME, NAMES, block, framed, header
from flykka.runtime.trace.file.reader import TraceReader
from flykka.runtime.trace.record.recorder import TraceRecorder
from flykka.runtime.trace.records import Record, Turn
from tests.runtime.scripted_actors import says, scripted_actor

pytestmark = pytest.mark.slow


def blocks(path: Path, count: int) -> list[bytes]:
    """Return the frames of a trace: a header, `count` blocks of a few turns, and an end."""
    found: list[bytes] = []
    for number in range(count):
        with SeededSystem(5, name="recorded", recorder=TraceRecorder(path)) as system:
            ref = system.spawn(scripted_actor([]), "a")
            for word in range(2):
                ref.tell(says(f"{number}.{word}"))
        data = path.read_bytes()
        frames = frames_of(data)
        found += frames[1:-1] if found else frames[:-1]
    return [*found, frames[-1]]


def frames_of(data: bytes) -> list[bytes]:
    frames = []
    while data:
        end = FRAME.size + FRAME.unpack(data[: FRAME.size])[0]
        frames.append(data[:end])
        data = data[end:]
    return frames


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[bytes], list[Record]]:
    path = tmp_path_factory.mktemp("whole") / "run.trace"
    frames = blocks(path, 2)
    path.write_bytes(b"".join(frames))
    return frames, list(TraceReader.open(path).records())


def test_a_file_cut_anywhere_is_read_up_to_the_last_complete_block(
    tmp_path: Path, whole: tuple[list[bytes], list[Record]]
) -> None:
    frames, records = whole
    data, path, seen = b"".join(frames), tmp_path / "cut.trace", set()

    for cut in range(len(frames[0]), len(data)):
        path.write_bytes(data[:cut])
        trace = TraceReader.open(path)
        found = list(trace.records())
        assert found == records[: len(found)]
        seen.add(len(found))
        assert trace.truncated is not None
        assert trace.truncated.offset <= cut
        assert trace.truncated.is_cut_off
        assert trace.damage is None

    assert seen == {0, len(records) // 2, len(records)}


def test_a_file_cut_within_the_header_is_not_a_trace(tmp_path: Path, whole: tuple[list[bytes], list[Record]]) -> None:
    frames, _ = whole

    for cut in range(len(frames[0])):
        path = tmp_path / "cut.trace"
        path.write_bytes(frames[0][:cut])
        with pytest.raises(TraceError, match="has no complete header"):
            TraceReader.open(path)


def test_a_flipped_bit_ends_the_trace_at_its_block(tmp_path: Path, whole: tuple[list[bytes], list[Record]]) -> None:
    frames, records = whole
    data, path = b"".join(frames), tmp_path / "flipped.trace"
    begins = [sum(map(len, frames[:number])) for number in range(len(frames))]

    for place in range(len(data)):
        flipped = bytearray(data)
        flipped[place] ^= 1 << place % 8
        path.write_bytes(flipped)
        if place < begins[1]:
            with pytest.raises(TraceError):
                TraceReader.open(path)
            continue
        trace = TraceReader.open(path)
        found = list(trace.records())
        assert found == records[: len(found)]
        assert trace.truncated is not None
        assert trace.truncated.offset == max(begin for begin in begins if begin <= place)
        # The trace does not count as cut off even if the length of the last frame exceeds the file.
        assert not trace.truncated.is_cut_off
        assert trace.damage == trace.truncated


def test_an_unclosed_trace_is_marked_and_read_completely(
    tmp_path: Path, whole: tuple[list[bytes], list[Record]]
) -> None:
    frames, records = whole
    path = tmp_path / "open.trace"
    path.write_bytes(b"".join(frames[:-1]))

    trace = TraceReader.open(path)

    assert list(trace.records()) == records
    assert trace.truncated is not None
    assert "was not closed" in trace.truncated.reason


def test_data_after_the_end_frame_is_reported_as_damage(
    tmp_path: Path, whole: tuple[list[bytes], list[Record]]
) -> None:
    frames, records = whole
    path = tmp_path / "long.trace"
    path.write_bytes(b"".join(frames) + frames[1])

    trace = TraceReader.open(path)

    assert list(trace.records()) == records
    assert trace.truncated is not None
    assert trace.truncated.offset == sum(map(len, frames))
    assert not trace.truncated.is_cut_off


PROGRAM = """
import os, sys
from flykka.runtime.actor import Actor
from flykka.runtime.props import Props
from flykka.runtime.system import ActorSystem
from flykka.runtime.trace.record.recorder import TraceRecorder
from tests.runtime.scripted_actors import says

class Counter(Actor):
    def handle_message(self, message):
        if message.text.endswith("000") and os.path.getsize(sys.argv[1]) > 10_000:
            print("there", flush=True)

system = ActorSystem("killed", recorder=TraceRecorder(sys.argv[1]))
ref = system.spawn(Props(Counter), "counter")
number = 0
while True:
    number += 1
    ref.tell(says(str(number)))
"""


@pytest.mark.slow
def test_a_trace_of_a_killed_process_is_read_to_its_last_block(tmp_path: Path) -> None:
    path = tmp_path / "run.trace"
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(path)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()

    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()

    trace = TraceReader.open(path)
    turns = [turn for turn in trace if turn.recipient.path == "/user/counter"]
    assert len(turns) > 1000
    assert [turn.sequence for turn in turns] == sorted(turn.sequence for turn in turns)
    assert trace.truncated is not None


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "the file is empty"),
        (b"hello, this is a text and no trace at all", "is not a trace: it does not begin like one"),
        (b"\x05\x00\x00\x00", "cut off within the head"),
        (framed(b"no map"), "is not a trace"),
        (framed(msgpack.packb([1, 2])), "is not a trace"),
        (framed(msgpack.packb({"format": "flykka.trace"})), "without a format version"),
        (framed(msgpack.packb({"format": "flykka.trace", "version": 0})), "without a format version"),
        (framed(msgpack.packb({"format": "flykka.trace", "version": 99, "package": "9.1"})), "flykka 9.1 or newer"),
        (framed(msgpack.packb({"format": "flykka.trace", "version": 3})), "has format 3 .* names classes by modules"),
        (framed(msgpack.packb({"format": "flykka.trace", "version": 4, "seed": 1})), "lacks system, package"),
    ],
    ids=["empty", "text", "short", "no map", "list", "no version", "unknown version", "newer", "older", "no system"],
)
def test_a_file_that_is_not_a_trace_is_refused_with_the_reason(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "other"
    path.write_bytes(data)

    with pytest.raises(TraceError, match=said) as refused:
        TraceReader.open(path)

    assert str(path) in str(refused.value)


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ({"seed": [1]}, "lacks seed"),
        ({"revision": 7}, "revision is a int"),
        ({"ring": {"limit": "many"}}, "limit is a str"),
        ({"ring": {"limit": 5}}, "required keyword-only argument"),
    ],
)
def test_a_header_with_invalid_types_is_refused_with_the_actual_types(
    tmp_path: Path, named: dict[str, object], said: str
) -> None:
    path = tmp_path / "other"
    fields = msgpack.unpackb(header("odd", 0)[FRAME.size :])
    path.write_bytes(framed(msgpack.packb({**fields, **named})))

    with pytest.raises(TraceError, match=said):
        TraceReader.open(path)


def test_optional_header_fields_must_have_valid_types(tmp_path: Path) -> None:
    path = tmp_path / "other"
    path.write_bytes(header("odd", 0) + framed(bytes([NAMES]) + msgpack.packb({"schemas": ["test.say"]})))

    with pytest.raises(TraceError, match="other is a trace whose header cannot be read: schemas is a list"):
        TraceReader.open(path)


def test_opening_a_folder_or_missing_file_raises_the_os_error(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        TraceReader.open(tmp_path)
    with pytest.raises(FileNotFoundError):
        TraceReader.open(tmp_path / "nothing")


@pytest.mark.parametrize(
    "content",
    [b"not compressed", b"", b"x\x9cK\xcaI,\x02\x00\x06Y\x02\x1a"],
    ids=["not compressed", "empty", "no chunk"],
)
def test_an_invalid_block_is_reported_with_its_position(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "odd.trace"
    head = header("odd", 0)
    path.write_bytes(head + framed(bytes([BLOCK]) + content) + framed(bytes([END]) + msgpack.packb({})))

    trace = TraceReader.open(path)

    with pytest.raises(TraceError, match=f"the block at byte {len(head)} cannot be read"):
        list(trace.records())


def test_inconsistent_content_is_reported_with_its_block_when_read(tmp_path: Path) -> None:
    path = tmp_path / "odd.trace"
    head = header("odd", 0)
    # The columns of a turn that sent its message to the tenth ref, although the block has one ref.
    columns = [[1], [0], [0], [None], [None], [0], [0], [[(0, 9, 0)]], [None], [None]]
    chunk = msgpack.packb(([("/user/a", 1)], [b"\x80"], [], columns))
    path.write_bytes(head + block([chunk]) + framed(bytes([END]) + msgpack.packb({})))

    [turn] = TraceReader.open(path)

    with pytest.raises(TraceError, match=f"odd.trace: the block at byte {len(head)} cannot be read: list index"):
        _ = turn.effects


def test_a_record_with_a_wrong_sequence_is_read_after_the_last_turn(tmp_path: Path) -> None:
    path = tmp_path / "odd.trace"
    chunk = msgpack.packb(([("/user/a", 1)], [], [(5, 1, 1, 0, 0)], []))
    path.write_bytes(header("odd", 0) + block([chunk]) + framed(bytes([END]) + msgpack.packb({})))

    assert [record.sequence for record in TraceReader.open(path).records()] == [1]


def test_frames_of_an_unknown_kind_are_skipped(tmp_path: Path, whole: tuple[list[bytes], list[Record]]) -> None:
    frames, records = whole
    path = tmp_path / "newer.trace"
    path.write_bytes(b"".join([frames[0], framed(b"\xc8something newer"), *frames[1:]]))

    assert list(TraceReader.open(path).records()) == records
    assert TraceReader.open(path).truncated is None


def test_an_unknown_message_class_is_read_as_bytes_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "gone.trace"
    with SeededSystem(5, recorder=TraceRecorder(path)) as system:
        system.spawn(scripted_actor([]), "a").tell(says("go"))
        system.run_until_idle()
    begin, *frames = [frame[FRAME.size :] for frame in frames_of(path.read_bytes())]
    blocks = [
        frame[:1] + zlib.compress(zlib.decompress(frame[1:]).replace(b"test.say", b"gone.say"))
        for frame in frames
        if frame[0] == BLOCK
    ]
    path.write_bytes(b"".join(map(framed, [begin, *blocks])))

    go = next(
        turn for turn in TraceReader.open(path) if isinstance(turn.message, Undecoded) and b"go" in turn.message.data
    )

    assert isinstance(go.message, Undecoded)
    assert msgpack.unpackb(go.message.data) == {"": "gone.say", "text": "go"}
    assert "unknown tag 'gone.say'" in go.message.reason
    assert go.recipient.path == "/user/a"


@message("test.bulk")
class Bulk(Message):
    """test -> actor: a long text."""

    text: str


def test_a_trace_is_read_one_block_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "long.trace"
    with SeededSystem(5, recorder=TraceRecorder(path)) as system:
        ref = system.spawn(scripted_actor([]), "a")
        for number in range(3000):
            ref.tell(Bulk(text=f"{number:>1000}"))
        system.run_until_idle()
    opened = os.listdir("/proc/self/fd") if sys.platform == "linux" else []

    first = next(iter(TraceReader.open(path)))

    assert isinstance(first, Turn)
    # A reader that stops early leaves no file open.
    assert not opened or os.listdir("/proc/self/fd") == opened
