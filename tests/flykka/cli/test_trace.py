"""`flykka trace`: the summary of a trace, and the errors for files that are not traces."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import fsspec
import msgpack
import pytest

from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason, TriggerCheckpoint
from flykka.messages.control.job import CheckpointAborted, CheckpointCompleted, JobResultFailure, JobSubmitSuccess
from flykka.messages.kernel.leader_session import LeaderSessionMessage
from flykka.messages.tasks.task import ExecutionState, TaskExecutionState, UpdateTaskExecutionState
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.ids import ExecutionAttemptId, JobId, LeaderSessionId
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.runtime.mailbox.envelope import Envelope
from flykka.runtime.recording import Effect, Recorder
from flykka.runtime.trace.file import frame_format as layout
from flykka.runtime.trace.file.frame_format import framed
from flykka.runtime.trace.record.flight_recorder import FlightRecorder
from flykka.runtime.trace.record.recorder import TraceRecorder
from tests.flykka.cli.shell import Shell
from tests.runtime.scripted_actors import says

pytestmark = pytest.mark.slow

JOB = JobId("0123456789abcdef0123456789abcdef")
COORDINATOR = Ref(f"/user/job-manager/job-{JOB}/checkpoint-coordinator", 1)
TASK_MANAGER = Ref("/user/task-manager-1", 1)
BOOM = SerializedThrowable(type_name="ValueError", message="boom\nat line 2")
FAILED = TaskExecutionState(attempt=ExecutionAttemptId("attempt"), state=ExecutionState.FAILED, failure=BOOM)
BEGIN_MS = 1_700_000_000_000


def take_turn(
    recorder: Recorder,
    number: int,
    recipient: Ref,
    message: Message,
    *effects: Effect,
    sender: Ref | None = None,
    cause: int | None = None,
    failure: SerializedThrowable | None = None,
) -> None:
    """Take turn `number`, which begins `number` tenths of a second after the start."""
    envelope = Envelope(message, sender, cause)
    recorder.turn(number, BEGIN_MS + 100 * (number - 1), recipient, envelope, list(effects), failure)


def play(recorder: Recorder) -> None:
    """Record a job with a completed checkpoint, an aborted checkpoint, and a checkpoint that never ends."""
    completed = CheckpointCompleted(
        job_id=JOB,
        checkpoint_id=7,
        duration_ms=1_500,
        size_bytes=2_048,
        incremental_bytes=1_024,
        path="/checkpoints/chk-7",
        timestamp_ms=BEGIN_MS,
    )
    aborted = CheckpointAborted(
        job_id=JOB, checkpoint_id=8, reason=CheckpointDeclineReason.JOB_FAILOVER_REGION, timestamp_ms=BEGIN_MS
    )
    trigger = TriggerCheckpoint(
        job_id=JOB, attempt=ExecutionAttemptId("attempt"), checkpoint_id=9, timestamp_ms=BEGIN_MS
    )
    recorder.open(system="shown", seed=0)
    take_turn(recorder, 1, TASK_MANAGER, says("hello"), ("spawn", Ref("/user/task-manager-1/task", 1)))
    # A turn that began later may end earlier, because another thread ran it.
    take_turn(recorder, 3, COORDINATOR, completed, ("start_timer", "trigger", 500, says("tick"), None))
    take_turn(
        recorder, 2, COORDINATOR, says("x" * 200), ("send", TASK_MANAGER, completed), sender=TASK_MANAGER, cause=1
    )
    session = LeaderSessionMessage(leader_session_id=LeaderSessionId("session"), message=aborted)
    take_turn(recorder, 4, COORDINATOR, session)
    take_turn(recorder, 5, TASK_MANAGER, trigger, sender=COORDINATOR, cause=3, failure=BOOM)
    recorder.killed(6, BEGIN_MS + 500, TASK_MANAGER)
    recorder.dead_letter(7, BEGIN_MS + 600, says("late"), None, TASK_MANAGER, "it has ended")


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "run.trace"
    recorder = TraceRecorder(path)
    play(recorder)
    recorder.close()
    return path


def test_show_prints_a_line_per_record_in_start_order(flykka_trace: Shell, trace: Path) -> None:
    code, out, err = flykka_trace("show", trace)

    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "      1     +0.000  /user/task-manager-1 <- Say(text=hello)  | spawns /user/task-manager-1/task",
        f"      2     +0.100  {COORDINATOR.path} <- Say(text={'x' * 77}...)  | from /user/task-manager-1 (1)"
        "  | sends CheckpointCompleted to /user/task-manager-1",
        f"      3     +0.200  {COORDINATOR.path} <- CheckpointCompleted(checkpoint_id=7, duration_ms=1500, "
        "size_bytes=2048, incremental_bytes=1024, path=/checkpoints/chk-7)  | starts timer trigger in 500 ms",
        f"      4     +0.300  {COORDINATOR.path} <- CheckpointAborted(checkpoint_id=8, reason=JOB_FAILOVER_REGION)",
        "      5     +0.400  /user/task-manager-1 <- TriggerCheckpoint(attempt=attempt, checkpoint_id=9)"
        f"  | from {COORDINATOR.path} (3)  | FAILED ValueError: boom at line 2",
        "      6     +0.500  /user/task-manager-1 <- KILLED",
        "      7     +0.600  /user/task-manager-1 <- DEAD LETTER Say(text=late)  | it has ended",
    ]


@pytest.mark.parametrize(
    ("options", "turns"),
    [
        (["--actor", "/user/task-manager-1"], [1, 5, 6, 7]),
        (["--actor", "task-manager-1"], [1, 5, 6, 7]),
        (["--actor", "*coordinator"], [2, 3, 4]),
        (["--type", "Say"], [1, 2, 7]),
        (["--type", "job.checkpoint_*"], [3, 4]),
        (["--from", "2", "--to", "4"], [2, 3, 4]),
        (["--type", "*Checkpoint*", "--limit", "2"], [3, 4]),
        (["--without", "Say", "--without", "*Aborted"], [3, 5, 6]),
    ],
    ids=str,
)
def test_show_prints_only_the_selected_records(
    flykka_trace: Shell, trace: Path, options: list[str], turns: list[int]
) -> None:
    code, out, _ = flykka_trace("show", trace, *options)

    assert code == 0
    assert [int(line.split()[0]) for line in out.splitlines()] == turns


def test_show_prints_complete_records_as_json(flykka_trace: Shell, trace: Path) -> None:
    code, out, _ = flykka_trace("show", trace, "--json")

    records: list[dict[str, Any]] = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [record["turn"] for record in records] == [1, 2, 3, 4, 5, 6, 7]
    assert records[1]["message"] == {"type": "test.say", "text": "x" * 200}
    assert records[1]["sender"] == "/user/task-manager-1#1"
    assert records[1]["effects"][0]["message"]["checkpoint_id"] == 7
    assert records[4]["failure"]["message"] == "boom\nat line 2"
    assert [record["kind"] for record in records[5:]] == ["killed", "dead_letter"]


def test_show_reports_how_many_turns_a_flight_recorder_has_dropped(flykka_trace: Shell, tmp_path: Path) -> None:
    recorder = FlightRecorder(turns=3)
    play(recorder)
    recorder.dump(tmp_path / "ring.trace")

    text, as_json = (
        flykka_trace("show", tmp_path / "ring.trace"),
        flykka_trace("show", tmp_path / "ring.trace", "--json"),
    )

    note = "# flight record of actor system 'shown': the first 4 turns were not kept"
    assert text[1].splitlines()[0] == note
    assert [line.split()[0] for line in text[1].splitlines()[1:]] == ["5", "6", "7"]
    assert as_json[2].strip() == note
    assert len(as_json[1].splitlines()) == 3


def test_a_truncated_trace_is_read_to_its_last_complete_record(flykka_trace: Shell, trace: Path) -> None:
    trace.write_bytes(trace.read_bytes()[:-5])

    show, stats = flykka_trace("show", trace), flykka_trace("stats", trace)

    assert (show[0], stats[0]) == (0, 0)
    assert [line.split()[0] for line in show[1].splitlines()] == ["1", "2", "3", "4", "5", "6", "7", "#"]
    assert "the trace ends at byte" in show[1].splitlines()[-1]
    assert "the trace ends at byte" in stats[1]


def test_stats_count_messages_and_actors(flykka_trace: Shell, trace: Path) -> None:
    code, out, _ = flykka_trace("stats", trace)

    assert code == 0
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert lines[0] == f"{trace}: recording of actor system 'shown'"
    assert lines[2:6] == [
        "from 2023-11-14 22:13:20 UTC on, 600 ms long",
        "turns: 5 (message: 5)",
        "actors: 2, 1 of them killed",
        "failed turns: 1, dead letters: 1",
    ]
    assert f"{JOB} 7 COMPLETED 1.5 s 2.0 KiB 1.0 KiB" in lines
    assert f"{JOB} 8 JOB_FAILOVER_REGION" in lines
    assert f"{JOB} 9 IN_PROGRESS" in lines
    assert "2 3.3 Say" in lines
    assert f"3 5.0 {COORDINATOR.path}" in lines
    assert "5 /user/task-manager-1 <- TriggerCheckpoint ValueError: boom at line 2" in lines
    assert "1 1.7 Say: it has ended" in lines


def test_a_failure_is_reported_at_its_first_occurrence(flykka_trace: Shell, tmp_path: Path) -> None:
    recorder = TraceRecorder(tmp_path / "run.trace")
    recorder.open(system="failing", seed=0)
    take_turn(recorder, 1, COORDINATOR, JobSubmitSuccess(job_id=JOB))
    take_turn(recorder, 3, COORDINATOR, JobResultFailure(job_id=JOB, cause=BOOM))
    take_turn(recorder, 2, TASK_MANAGER, UpdateTaskExecutionState(state=FAILED))
    recorder.close()

    _, out, _ = flykka_trace("stats", tmp_path / "run.trace", "--json")

    assert json.loads(out)["failures"] == [
        {
            "turn": 2,
            "recipient": TASK_MANAGER.path,
            "message": "UpdateTaskExecutionState",
            "failure": "ValueError: boom at line 2",
        }
    ]


def test_stats_are_available_as_json(flykka_trace: Shell, trace: Path) -> None:
    code, out, _ = flykka_trace("stats", trace, "--json")

    document = json.loads(out)
    assert code == 0
    assert (document["turns"], document["duration_ms"], document["killed"]) == (5, 600, ["/user/task-manager-1"])
    assert document["header"]["system"] == "shown"
    assert [each["state"] for each in document["checkpoints"]] == ["COMPLETED", "JOB_FAILOVER_REGION", "IN_PROGRESS"]


def test_stats_name_the_messages_with_the_longest_wait(flykka_trace: Shell, tmp_path: Path) -> None:
    recorder = TraceRecorder(tmp_path / "run.trace")
    recorder.open(system="slow", seed=0)
    take_turn(recorder, 1, COORDINATOR, says("go"), ("send", TASK_MANAGER, says("x")))
    take_turn(recorder, 2, TASK_MANAGER, says("y"), sender=COORDINATOR, cause=1)
    take_turn(recorder, 8, COORDINATOR, says("the outcome of blocking work"), sender=COORDINATOR, cause=1)
    take_turn(recorder, 9, TASK_MANAGER, says("x"), sender=COORDINATOR, cause=1)
    recorder.close()

    _, text, _ = flykka_trace("stats", tmp_path / "run.trace")
    _, as_json, _ = flykka_trace("stats", tmp_path / "run.trace", "--json")

    assert [wait["ms"] for wait in json.loads(as_json)["longest_waits"]] == [800, 100]
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "800 ms 9 /user/task-manager-1 <- Say sent in 1" in lines


@pytest.mark.parametrize("command", ["show", "stats"])
def test_an_unreadable_trace_is_reported_on_one_line_with_exit_code_2(
    flykka_trace: Shell, tmp_path: Path, command: str
) -> None:
    text, newer = tmp_path / "notes.txt", tmp_path / "newer.trace"
    text.write_text("this is no trace at all")
    newer.write_bytes(framed(msgpack.packb({"format": "flykka.trace", "version": 99, "package": "9.1"})))

    for path, said in [
        (tmp_path / "nothing.trace", "there is no file"),
        (tmp_path, "is a folder; a trace is a file"),
        (text, "is not a trace"),
        (newer, "has format 99, and this version reads 4: read it with flykka 9.1 or newer"),
    ]:
        code, out, err = flykka_trace(command, path)

        assert (code, out) == (2, "")
        assert err.startswith(f"flykka trace {command}: ")
        assert str(path) in err
        assert said in err
        assert err.count("\n") == 1


@pytest.mark.parametrize("limit", ["0", "-1", "few"])
def test_a_limit_must_be_positive(flykka_trace: Shell, trace: Path, limit: str) -> None:
    code, _, err = flykka_trace("show", trace, "--limit", limit)

    assert code == 2
    assert "argument --limit" in err


def test_unknown_messages_are_shown_by_their_tags(flykka_trace: Shell, trace: Path) -> None:
    unknown = {"": "user.own_word", "job_id": JOB, "letters": 3, "inner": {"": "user.part", "size": 1}}
    columns = [[1], [BEGIN_MS], [0], [None], [None], [0], [0], [None], [None], [None]]
    chunk = [[["/user/a", 1]], [msgpack.packb(unknown)], [], columns]
    trace.write_bytes(layout.header("s", 0) + layout.block([msgpack.packb(chunk)]) + layout.end({}))

    _, shown, _ = flykka_trace("show", trace, "--type", "user.*")

    assert shown.split(maxsplit=2)[2] == "/user/a <- user.own_word(letters=3, inner=user.part(size=1))\n"


def test_a_remote_trace_is_fetched(flykka_trace: Shell, trace: Path) -> None:
    far = "memory://traces/run.trace"
    fsspec.filesystem("memory").pipe_file("/traces/run.trace", trace.read_bytes())

    assert flykka_trace("show", far)[1] == flykka_trace("show", trace)[1]
    assert flykka_trace("show", "memory://traces/other.trace")[0] == 2


PROGRAM = """
import sys
from flykka.cli.main import main
code = main()
assert "pyspark" not in sys.modules
sys.exit(code)
"""


@pytest.mark.slow
def test_a_reader_may_close_the_pipe_early(tmp_path: Path) -> None:
    path = tmp_path / "long.trace"
    recorder = TraceRecorder(path)
    recorder.open(system="long", seed=0)
    for number in range(1, 20_000):
        take_turn(recorder, number, TASK_MANAGER, JobSubmitSuccess(job_id=JOB))
    recorder.close()

    command = [sys.executable, "-c", PROGRAM, "trace", "show", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        first = process.stdout.readline()
        process.stdout.close()
        err = process.stderr.read()

    assert first.split()[0] == b"1"
    assert (process.returncode, err) == (0, b"")


@pytest.mark.slow
def test_a_terminal_shows_columns_with_failures_in_red(trace: Path) -> None:
    terminal, inside = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "300"}
    environment.pop("NO_COLOR", None)
    command = [sys.executable, "-c", PROGRAM, "trace", "show", str(trace)]
    with subprocess.Popen(command, stdout=inside, env=environment) as process:
        os.close(inside)
        screen = _read_to_the_end(terminal)

    assert process.returncode == 0
    failed = next(line for line in screen.splitlines() if "FAILED" in line)
    assert "\x1b[31m" in failed
    assert "job-manager/job-012345/checkpoint-coordinator" in screen
    assert screen.count("from (turn)") == 1


def _read_to_the_end(terminal: int) -> str:
    read = b""
    try:
        while part := os.read(terminal, 65_536):
            read += part
    except OSError:
        pass  # On Linux this error means that the terminal has no writer left.
    finally:
        os.close(terminal)
    return read.decode()


@pytest.mark.parametrize("asked", [["--actor", "nobody"], ["--type", "Nothing"], ["--from", "3", "--to", "2"]], ids=str)
def test_missing_turns_cause_exit_code_2(flykka_trace: Shell, trace: Path, asked: list[str]) -> None:
    code, _, err = flykka_trace("show", trace, *asked)

    assert code == 2
    assert err == f"flykka trace show: {trace}: no turn matches; `flykka trace stats` lists messages and actors\n"
