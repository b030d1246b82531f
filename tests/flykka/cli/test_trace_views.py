"""`flykka trace story`, `diagram` and `diff`: their output, files and exit codes."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest

from flykka.cli.main import main
from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason
from flykka.messages.control.registration import HeartbeatDue
from flykka.runtime.trace.file.frame_format import FRAME
from tests.flykka.cli.shell import Shell
from tests.flykka.traces.recording import BEGIN_MS, JOB, TASK_MANAGER, Recording, coordinator, record_checkpoint
from tests.histories import HISTORIES
from tests.runtime.scripted_actors import says

pytestmark = pytest.mark.slow


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    recording = Recording(tmp_path / "run.trace")
    record_checkpoint(recording, 1)
    recording.turn(TASK_MANAGER, HeartbeatDue(), timer=True)
    record_checkpoint(recording, 2, tasks=8)
    recording.closed()
    return recording.path


def another(path: Path, *, reason: CheckpointDeclineReason | None = None, delay_ms: int = 0) -> Path:
    """Record the same run one year later. With a reason, its second checkpoint is aborted."""
    recording = Recording(path)
    recording.now_ms = BEGIN_MS + 365 * 86_400_000
    record_checkpoint(recording, 1)
    recording.turn(TASK_MANAGER, HeartbeatDue(), timer=True, after_ms=delay_ms)
    record_checkpoint(recording, 2, tasks=8, aborted=reason)
    recording.closed()
    return path


def test_a_story_is_printed_line_by_line(flykka_trace: Shell, trace: Path) -> None:
    code, out, err = flykka_trace("story", trace, "--checkpoint", "2")

    assert (code, err) == (0, "")
    assert out.splitlines()[0] == f"checkpoint 2 of job {JOB}: COMPLETED in 1.5 s, 2.0 KiB, 1.0 KiB of it new"
    assert "8 x acknowledged within 70 ms, the last was window-7.0-7, async 1.5 s" in out
    assert flykka_trace("story", trace, "--checkpoint", "2", "--all")[1].count(": acknowledged") == 8


def test_a_story_is_available_as_json(flykka_trace: Shell, trace: Path) -> None:
    code, out, _ = flykka_trace("story", trace, "--checkpoint", "2", "--json")

    assert code == 0
    assert json.loads(out)["subject"] == f"checkpoint 2 of job {JOB}"


def test_a_story_is_about_the_only_job_by_default(flykka_trace: Shell) -> None:
    code, out, err = flykka_trace("story", HISTORIES / "at-least-once.trace")

    assert (code, err) == (0, "")
    assert out.startswith("job job: FINISHED\n")


@pytest.mark.parametrize(
    "asked",
    [["--checkpoint", "1", "--attempt", "x"], ["--attempt", "x", "--job", "y"], ["--checkpoint", "none"]],
    ids=str,
)
def test_a_story_command_has_exactly_one_subject(flykka_trace: Shell, trace: Path, asked: list[str]) -> None:
    code, out, err = flykka_trace("story", trace, *asked)

    assert (code, out) == (2, "")
    assert "flykka trace story: error:" in err


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["--checkpoint", "9"], "there is no checkpoint 9; there are 1 to 2"),
        (["--attempt", "nobody"], "there is no attempt 'nobody'; there are: "),
        (["--job", "nothing"], "the trace contains no jobs"),
    ],
    ids=str,
)
def test_a_story_of_a_missing_subject_has_exit_code_2(
    flykka_trace: Shell, trace: Path, asked: list[str], said: str
) -> None:
    code, out, err = flykka_trace("story", trace, *asked)

    assert (code, out) == (2, "")
    assert err.startswith(f"flykka trace story: {trace}: {said}")


@pytest.mark.parametrize("name", ["mermaid", "html", "perfetto"])
def test_a_diagram_is_printed_or_written_to_a_file(flykka_trace: Shell, trace: Path, tmp_path: Path, name: str) -> None:
    output = tmp_path / "drawn"

    printed = flykka_trace("diagram", trace, "--format", name, "--collapse", "heartbeats")
    written = flykka_trace("diagram", trace, "--format", name, "--collapse", "heartbeats", "-o", output)

    assert (printed[0], printed[2]) == (0, "")
    assert written == (0, "", f"drawn: {output}\n")
    assert output.read_text(encoding="utf-8") == printed[1]
    assert "1 HeartbeatDue" in printed[1]


def test_a_diagram_may_cover_a_part_of_the_trace(flykka_trace: Shell, trace: Path) -> None:
    of_actor = flykka_trace("diagram", trace, "--format", "mermaid", "--actors", "*coordinator", "--from", "11")[1]
    of_checkpoint = flykka_trace("diagram", trace, "--format", "mermaid", "--checkpoint", "1")[1]

    assert "HeartbeatDue" not in of_actor
    assert ": 1 +" not in of_actor
    assert "checkpoint_id=2" in of_actor
    assert "checkpoint_id=2" not in of_checkpoint


def test_a_diagram_that_is_too_large_suggests_filters(flykka_trace: Shell, tmp_path: Path) -> None:
    recording = Recording(tmp_path / "long.trace")
    for _ in range(301):
        recording.turn(TASK_MANAGER, HeartbeatDue())
    recording.closed()

    code, out, err = flykka_trace("diagram", recording.path, "--format", "mermaid")

    assert (code, out) == (2, "")
    assert "301 turns are too many for this diagram, which takes 300: draw fewer with --from and --to" in err
    assert flykka_trace("diagram", recording.path, "--format", "mermaid", "--collapse", "heartbeats")[0] == 0


def test_an_unwritable_diagram_names_the_file(flykka_trace: Shell, trace: Path, tmp_path: Path) -> None:
    output = tmp_path / "no such folder" / "page.html"

    code, out, err = flykka_trace("diagram", trace, "-o", output)

    assert (code, out) == (2, "")
    assert err == f"flykka trace diagram: {output} cannot be written: No such file or directory\n"


def test_a_diagram_does_not_overwrite_its_trace(flykka_trace: Shell, trace: Path) -> None:
    recorded = trace.read_bytes()

    code, out, err = flykka_trace("diagram", trace, "-o", trace)

    assert (code, out) == (2, "")
    assert err == f"flykka trace diagram: {trace} is the trace itself: name another file with -o\n"
    assert trace.read_bytes() == recorded


def test_runs_that_differ_only_in_times_are_equal(flykka_trace: Shell, trace: Path, tmp_path: Path) -> None:
    other = another(tmp_path / "other.trace", delay_ms=7)

    code, out, err = flykka_trace("diff", trace, other)

    assert (code, err) == (0, "")
    assert out == f"{trace} and {other} are the same: 39 records of 11 actors, except for times and the names of ids\n"


def test_the_first_difference_is_printed_with_fields_causes_and_a_command(
    flykka_trace: Shell, trace: Path, tmp_path: Path
) -> None:
    other = another(tmp_path / "other.trace", reason=CheckpointDeclineReason.EXPIRED)

    code, out, _ = flykka_trace("diff", trace, other)

    lines = out.splitlines()
    assert code == 1
    assert lines[0] == f"{trace} and {other} differ first in record 6 of {coordinator().path}"
    assert lines[1].startswith("  A  22  AcknowledgeCheckpoint(")
    assert lines[2] == "  B  the actor has no more records"
    assert lines[-1] == f"look: flykka trace show {trace} --actor '{coordinator().path}' --from 22 --limit 5"


def test_a_difference_is_available_as_json(flykka_trace: Shell, trace: Path, tmp_path: Path) -> None:
    other = another(tmp_path / "other.trace", reason=CheckpointDeclineReason.EXPIRED)

    code, out, _ = flykka_trace("diff", trace, other, "--json")

    document = json.loads(out)
    assert code == 1
    assert (document["difference"]["left"]["turn"], document["difference"]["right"]) == (22, None)
    assert json.loads(flykka_trace("diff", trace, trace, "--json")[1])["difference"] is None


def test_excluded_parts_are_not_compared(flykka_trace: Shell, tmp_path: Path) -> None:
    paths = []
    for name, beats in (("a", 1), ("b", 3)):
        recording = Recording(tmp_path / f"{name}.trace")
        for _ in range(beats):
            recording.turn(TASK_MANAGER, HeartbeatDue(), timer=True)
        recording.turn(TASK_MANAGER, says(name))
        paths.append(recording.closed().path)

    assert flykka_trace("show", paths[1], "--without", "heartbeats")[1].count("\n") == 1
    assert flykka_trace("diff", *paths)[0] == 1
    assert flykka_trace("diff", *paths, "--without", "heartbeats")[0] == 1
    assert flykka_trace("diff", *paths, "--without", "heartbeats", "--ignore", "text")[0] == 0


def test_an_effect_of_only_one_run_is_printed_as_in_other_views(flykka_trace: Shell, tmp_path: Path) -> None:
    paths = []
    for name, effects in (("a", ()), ("b", (("cancel_timer", "beat"),))):
        recording = Recording(tmp_path / f"{name}.trace")
        recording.turn(TASK_MANAGER, says("hello"), *effects)
        paths.append(recording.closed().path)

    out = flykka_trace("diff", *paths)[1]

    assert "effects[0]: A has nothing, B cancels timer beat" in out
    assert "CancelTimer(" not in out


def test_the_strict_option_compares_times(flykka_trace: Shell, tmp_path: Path) -> None:
    one, other = another(tmp_path / "one.trace"), another(tmp_path / "other.trace")

    assert flykka_trace("diff", one, other, "--strict")[0] == 0
    assert flykka_trace("diff", one, another(tmp_path / "later.trace", delay_ms=3), "--strict")[0] == 1


COMMANDS = (
    ["story", "--checkpoint", "1"],
    ["diagram"],
    ["diagram", "--format", "mermaid"],
    ["diagram", "--format", "perfetto"],
    ["diff"],
    ["diff", "--json"],
)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_an_unreadable_file_is_reported_on_one_line_with_exit_code_2(
    flykka_trace: Shell, trace: Path, tmp_path: Path, command: list[str]
) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("this is no trace at all")
    name, *options = command
    also = [trace] if name == "diff" else []

    for path, said in [
        (tmp_path / "nothing.trace", "there is no file"),
        (tmp_path, "is a folder; a trace is a file"),
        (text, str(text)),
    ]:
        code, out, err = flykka_trace(name, path, *also, *options)

        assert (code, out) == (2, "")
        assert err.startswith(f"flykka trace {name}: ")
        assert said in err
        assert err.count("\n") == 1


def test_errors_in_the_second_file_of_a_comparison_name_it(flykka_trace: Shell, trace: Path, tmp_path: Path) -> None:
    code, out, err = flykka_trace("diff", trace, tmp_path / "nothing.trace")

    assert (code, out, err) == (2, "", f"flykka trace diff: there is no file {tmp_path / 'nothing.trace'}\n")


def test_runs_without_compared_turns_are_not_reported_as_equal(flykka_trace: Shell, trace: Path) -> None:
    code, out, err = flykka_trace("diff", trace, trace, "--actor", "nobody")

    assert (code, out) == (2, "")
    assert err == f"flykka trace diff: neither {trace} nor {trace} contains anything that matches\n"


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_truncated_trace_is_read_to_its_end_with_a_note(flykka_trace: Shell, trace: Path, command: list[str]) -> None:
    trace.write_bytes(trace.read_bytes()[: -FRAME.size])
    name, *options = command
    also = [trace] if name == "diff" else []

    code, out, err = flykka_trace(name, trace, *also, *options)

    assert (code, err) == (0, "")
    assert "the trace ends at byte" in out


@pytest.mark.parametrize("name", ["html", "perfetto"])
def test_unprintable_characters_are_not_sent_to_a_terminal(
    flykka_trace: Shell, trace: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)

    code, out, err = flykka_trace("diagram", trace, "--format", name)

    assert (code, out) == (2, "")
    assert f"{name} is not for a terminal: write it to a file with -o FILE" in err


def test_failures_are_red_on_a_terminal(trace: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    other = another(tmp_path / "other.trace", reason=CheckpointDeclineReason.EXPIRED)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    screen = StringIO()
    monkeypatch.setattr("sys.stdout", screen)

    code = main(["trace", "story", str(other), "--checkpoint", "2"])

    aborted = next(line for line in screen.getvalue().splitlines() if "abort" in line)
    assert code == 0
    assert aborted.startswith("\x1b[31m!")
