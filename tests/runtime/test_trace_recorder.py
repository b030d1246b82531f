"""Options of a recorder: maximum size, redaction and extra columns; also the code version in the header."""

from __future__ import annotations

import logging
import subprocess
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from flykka.messages.kernel.leader_session import LeaderSessionMessage
from flykka.messages.wire.ids import LeaderSessionId
from flykka.messages.wire.message import Message, message
from flykka.messages.wire.ref import Ref
from flykka.runtime.actor import Actor
from flykka.runtime.leader_session import Gateway
from flykka.runtime.mailbox.envelope import Envelope
from flykka.runtime.props import Props
from flykka.runtime.testing.seeded import SeededSystem
from flykka.runtime.trace.effects import Send, Undecoded
from flykka.runtime.trace.file.message_encoding import MAX_MESSAGE_BYTES
from flykka.runtime.trace.file.reader import TraceReader
from flykka.runtime.trace.file.versions import module_hashes, revision, schema_hash
from flykka.runtime.trace.record.recorder import TraceRecorder
from flykka.runtime.trace.records import Capped, Turn
from flykka.runtime.trace.state.description import digest
from tests.runtime.scripted_actors import Say, says, scripted_actor

SOMEONE = Ref("/user/someone", 1)


def take_turns(recorder: TraceRecorder, messages: list[Message]) -> None:
    recorder.open(system="recorded", seed=0)
    for number, word in enumerate(messages, start=1):
        recorder.turn(number, number, SOMEONE, Envelope(word, None, None), [("send", SOMEONE, word)], None)
    recorder.close()


def turns_of(path: Path, ref: Ref) -> list[Turn]:
    return [turn for turn in TraceReader.open(path) if turn.recipient == ref and turn.kind == "message"]


def test_a_recording_ends_at_its_size_limit_and_the_system_continues(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, log = tmp_path / "run.trace", list[str]()
    with SeededSystem(5, recorder=TraceRecorder(path, max_bytes=20_000)) as system:
        ref = system.spawn(scripted_actor(log), "a")
        for number in range(8_000):
            ref.tell(says(f"{number * 7919 % 8009}"))
        system.run_until_idle()

    trace = TraceReader.open(path)
    turns = list(trace)
    assert len(log) >= 8_000
    assert path.stat().st_size <= 20_000
    assert 0 < len(turns) < 8_000
    assert trace.header.capped == Capped(sequence=max(turn.sequence for turn in turns) + 1, max_bytes=20_000)
    assert trace.truncated is None
    assert f"ends at turn {trace.header.capped.sequence}" in caplog.text


def test_a_recording_below_its_size_limit_is_complete(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    take_turns(TraceRecorder(tmp_path / "run.trace", max_bytes=100_000), [says("x")])

    assert TraceReader.open(tmp_path / "run.trace").header.capped is None
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@message("test.secret")
class Secret(Message):
    """test -> actor: a text that must not be readable in the trace."""

    password: str
    user: str = "somebody"


def hide(secret: Message) -> Message:
    assert isinstance(secret, Secret)
    return replace(secret, password="***")


def test_a_redacted_message_is_absent_and_the_header_lists_its_tag(tmp_path: Path) -> None:
    path, secret = tmp_path / "run.trace", Secret(password="open sesame")

    take_turns(TraceRecorder(path, redact={Secret: hide}), [says("hello"), secret])

    first, second = TraceReader.open(path)
    assert second.message == Secret(password="***")
    assert second.effects == (Send(target=SOMEONE, message=Secret(password="***")),)
    assert first.message == says("hello")
    assert TraceReader.open(path).header.redacted == {"test.secret"}
    assert secret.password == "open sesame"


def test_messages_under_a_leader_session_are_redacted(tmp_path: Path) -> None:
    path, session = tmp_path / "run.trace", LeaderSessionId("s")
    with SeededSystem(5, recorder=TraceRecorder(path, redact={Secret: hide})) as system:
        ref = system.spawn(scripted_actor([], {"start": lambda c: c.accept_session(session)}), "a")
        system.run_until_idle()
        Gateway(ref, session).tell(Secret(password="open sesame"))
        system.run_until_idle()

    (turn,) = turns_of(path, ref)
    assert turn.message == LeaderSessionMessage(leader_session_id=session, message=Secret(password="***"))
    assert TraceReader.open(path).header.redacted == {"test.secret"}


@pytest.mark.parametrize(
    ("redact", "said"),
    [
        (lambda _: says("another"), "redact must return a message of the same class, not Say"),
        (lambda secret: secret.nothing, "AttributeError"),
    ],
    ids=["another class", "raises"],
)
def test_messages_that_cannot_be_redacted_are_not_written(tmp_path: Path, redact: object, said: str) -> None:
    path = tmp_path / "run.trace"

    take_turns(TraceRecorder(path, redact={Secret: redact}), [Secret(password="open sesame")])  # type: ignore[dict-item]

    (turn,) = TraceReader.open(path)
    assert isinstance(turn.message, Undecoded)
    assert "test.secret: it could not be redacted" in turn.message.reason
    assert said in turn.message.reason
    assert "sesame" not in turn.message.reason


@message("test.load")
class Load(Message):
    """test -> actor: a large text."""

    data: bytes
    more: tuple[str, ...] = ()


@pytest.mark.slow
def test_a_message_that_is_too_large_is_described_by_size_and_fingerprint(tmp_path: Path) -> None:
    path = tmp_path / "run.trace"
    data = bytes(MAX_MESSAGE_BYTES + 1)

    tracemalloc.start()
    take_turns(TraceRecorder(path), [Load(data=data), Load(data=data), Load(data=b"x" * len(data))])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    reasons = [turn.message.reason for turn in TraceReader.open(path) if isinstance(turn.message, Undecoded)]
    assert "test.load of 16,777,217 bytes, too large for a trace" in reasons[0]
    assert reasons[0] == reasons[1] != reasons[2]
    assert path.stat().st_size < 10_000
    # The test itself holds the messages; they are not copied.
    assert peak < 2 * MAX_MESSAGE_BYTES


@pytest.mark.slow
def test_large_messages_do_not_accumulate_in_the_recorder(tmp_path: Path) -> None:
    path = tmp_path / "run.trace"
    loads: list[Message] = [Load(data=bytes([number]) * 1_000_000) for number in range(100)]

    tracemalloc.start()
    take_turns(TraceRecorder(path), loads)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert [turn.message for turn in TraceReader.open(path)] == loads
    assert peak < 80_000_000


class Counter(Actor):
    def __init__(self) -> None:
        self.count = 0

    def handle_message(self, message: Message) -> None:
        self.count += 1


def test_turns_are_recorded_with_a_state_digest_on_request(tmp_path: Path) -> None:
    path = tmp_path / "run.trace"
    with SeededSystem(5, recorder=TraceRecorder(path, digests=True)) as system:
        ref = system.spawn(Props(Counter), "a")
        for _ in range(3):
            ref.tell(says("x"))
        system.run_until_idle()

    states = []
    for count in (1, 2, 3):
        state = Counter()
        state.count = count
        states.append(digest(state))
    assert [turn.digest for turn in turns_of(path, ref)] == states


def test_turns_are_recorded_without_a_digest_by_default(tmp_path: Path) -> None:
    take_turns(TraceRecorder(tmp_path / "run.trace"), [says("x")])

    assert [turn.digest for turn in TraceReader.open(tmp_path / "run.trace")] == [None]


def test_the_header_has_hashes_of_message_and_actor_modules(tmp_path: Path) -> None:
    path = tmp_path / "run.trace"
    with SeededSystem(5, recorder=TraceRecorder(path)) as system:
        system.spawn(Props(Counter), "a").tell(says("x"))

    header = TraceReader.open(path).header

    assert header.schemas["test.say"] == schema_hash(Say)
    assert "kernel.create" in header.schemas
    assert "test.secret" not in header.schemas
    assert header.modules == module_hashes(__name__)
    assert set(header.modules) == {__name__, "tests.runtime"}
    assert header.recorded_at_ms is not None
    assert header.recorded_at_ms > 1_700_000_000_000


def test_message_classes_first_used_late_are_in_the_header(tmp_path: Path) -> None:
    path = tmp_path / "run.trace"
    words: list[Message] = [says(str(number * 7919 % 100_003)) for number in range(20_000)]

    take_turns(TraceRecorder(path), [*words, Secret(password="late")])

    assert set(TraceReader.open(path).header.schemas) == {"test.say", "test.secret"}


def test_a_schema_hash_covers_the_fields_and_nested_classes() -> None:
    def declare_message(tag: str, **annotations: object) -> type[Message]:
        body = {"__annotations__": annotations, "__module__": __name__, "__qualname__": f"{tag}.{len(annotations)}"}
        return message(f"test.{tag}")(type(tag, (Message,), body))

    first = schema_hash(declare_message("schema_a", count=int, words=tuple[str, ...]))

    assert len({first, schema_hash(declare_message("schema_b", count=int, words=tuple[str, ...]))}) == 2
    assert schema_hash(LeaderSessionMessage) == schema_hash(LeaderSessionMessage)
    assert schema_hash(Say) != schema_hash(Secret)


def test_the_revision_is_the_commit_of_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert revision() is None

    def git(*words: str) -> str:
        identity = ["-c", "user.name=n", "-c", "user.email=e@x", "-c", "commit.gpgsign=false"]
        done = subprocess.run(["git", *identity, *words], check=True, capture_output=True, text=True, cwd=tmp_path)
        return done.stdout.strip()

    git("init", "-q")
    assert revision() is None
    git("commit", "-q", "--allow-empty", "-m", "first")
    first = git("rev-parse", "HEAD")
    assert revision() == first
    git("pack-refs", "--all")
    assert revision() == first
    git("checkout", "-q", "--detach")
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    assert revision() == first
    git("worktree", "add", "-q", "-b", "other", str(tmp_path / "tree"))
    monkeypatch.chdir(tmp_path / "tree")
    assert revision() == first
