"""`flykka replay`: output for matching runs, for diverging runs, and for files that are not traces."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from flykka.cli.main import main
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.runtime.actor import Actor
from flykka.runtime.props import Props
from flykka.runtime.testing.replays import assert_replays
from flykka.runtime.testing.seeded import SeededSystem
from flykka.runtime.trace.record.recorder import TraceRecorder
from tests.flykka.cli.shell import Shell
from tests.runtime import scripted_actors
from tests.runtime.scripted_actors import Say, says, scripted_actor

word = "echo"


class Echo(Actor):
    """Forwards each message to another actor. The tests change the text that this actor adds."""

    def __init__(self, other: Ref) -> None:
        self.other = other

    def handle_message(self, message: Message) -> None:
        match message:
            case Say(text=text):
                self.other.tell(says(f"{word} {text}"))


@pytest.fixture
def flykka_replay(capsys: pytest.CaptureFixture[str]) -> Shell:
    def run(*arguments: object) -> tuple[int, str, str]:
        try:
            code = main(["replay", *map(str, arguments)])
        except SystemExit as usage:
            code = int(usage.code or 0)
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return record_echoes(tmp_path / "run.trace")


def record_echoes(path: Path) -> Path:
    with SeededSystem(3, recorder=TraceRecorder(path)) as system:
        listener = system.spawn(scripted_actor([]), "listener")
        other = system.spawn(Props(Echo, listener), "echo")
        echo = system.spawn(Props(Echo, other), "first")
        for text in ("one", "two"):
            echo.tell(says(text))
        system.run_until_idle()
    return path


def test_a_matching_run_is_one_line_with_exit_code_0(flykka_replay: Shell, trace: Path) -> None:
    code, out, err = flykka_replay(trace)

    assert (code, err) == (0, "")
    assert out.startswith(f"{trace}: as recorded; ")
    assert len(out.splitlines()) == 1


def test_a_diverging_run_is_printed_with_its_report(
    flykka_replay: Shell, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "word", "ohce")

    code, out, _ = flykka_replay(trace)

    lines = out.splitlines()
    assert code == 1
    assert lines[0].startswith("DIVERGENCE at turn ")
    assert "  field     text: recorded 'echo one', now 'ohce one'" in lines
    assert lines[-1].startswith(f"{trace}: diverged at turn ")


def test_a_single_actor_may_be_replayed(flykka_replay: Shell, trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, _ = flykka_replay(trace, "--actor", "/user/echo")

    assert code == 0
    assert "not replayed: /user/listener, /user/first: not selected" in out
    monkeypatch.setattr(sys.modules[__name__], "word", "ohce")
    code, out, _ = flykka_replay(trace, "--actor", "/user/echo")
    assert (code, out.splitlines()[0].partition("/user/")[2].partition(" ")[0]) == (1, "echo")


def test_a_run_may_be_replayed_up_to_a_turn(flykka_replay: Shell, trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "word", "ohce")
    _, out, _ = flykka_replay(trace, "--json")
    turn = json.loads(out)["traces"][0]["divergence"]["turn"]

    assert flykka_replay(trace, "--until", turn - 1)[0] == 0
    assert flykka_replay(trace, "--until", turn)[0] == 1


def test_the_worst_of_several_files_determines_the_exit_code(flykka_replay: Shell, trace: Path, tmp_path: Path) -> None:
    (tmp_path / "none.trace").write_text("no trace")

    code, out, err = flykka_replay(trace, tmp_path / "none.trace", tmp_path / "missing.trace", trace)

    assert code == 2
    assert out.count("as recorded") == 2
    assert f"flykka replay: there is no file {tmp_path / 'missing.trace'}" in err
    assert "none.trace" in err


def test_a_truncated_trace_replays_to_its_end(flykka_replay: Shell, trace: Path) -> None:
    whole = trace.read_bytes()
    trace.write_bytes(whole[:-9])

    code, out, _ = flykka_replay(trace)

    assert code == 0
    assert "  replayed up to byte " in out


def test_the_result_is_available_as_json(flykka_replay: Shell, trace: Path, tmp_path: Path) -> None:
    code, out, _ = flykka_replay(trace, tmp_path / "missing.trace", "--json")

    first, second = json.loads(out)["traces"]
    assert code == 2
    assert (first["exit_code"], first["divergence"], first["boundary"]) == (0, None, [])
    assert first["turns"] == first["compared"] > 0
    assert (second["exit_code"], second["error"]) == (2, f"there is no file {tmp_path / 'missing.trace'}")


def test_junit_xml_is_written_for_ci(
    flykka_replay: Shell, trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "word", "oh\x00ce")

    code, _, _ = flykka_replay(trace, tmp_path / "missing.trace", "--junit", tmp_path / "replay.xml")

    suite = ElementTree.parse(tmp_path / "replay.xml").getroot()
    assert code == 2
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "1", "1")
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert failure.get("type") == "payload"
    assert (failure.text or "").startswith("DIVERGENCE at turn ")


def test_an_unwritable_file_is_reported(flykka_replay: Shell, trace: Path, tmp_path: Path) -> None:
    code, _, err = flykka_replay(trace, "--junit", tmp_path / "no folder" / "replay.xml")

    assert code == 2
    assert "cannot be written: No such file or directory" in err


@pytest.mark.slow
def test_a_message_of_an_unknown_class_is_not_a_divergence(tmp_path: Path) -> None:
    # The class of the message exists in the recording process, but not in the replaying one.
    script = """
import sys
from flykka.messages.wire.message import Message, message
from flykka.runtime.testing.seeded import SeededSystem
from flykka.runtime.trace.record.recorder import TraceRecorder
from tests.runtime.scripted_actors import scripted_actor

@message("stranger.word")
class Word(Message):
    text: str

with SeededSystem(3, recorder=TraceRecorder(sys.argv[1])) as system:
    system.spawn(scripted_actor([]), "a").tell(Word(text="hello"))
    system.run_until_idle()
"""
    path = tmp_path / "run.trace"
    subprocess.run([sys.executable, "-c", script, path], check=True, env=dict(os.environ))

    replayed = subprocess.run(
        [sys.executable, "-m", "flykka", "replay", path, "--import", "tests.runtime.scripted_actors"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert replayed.returncode == 2, replayed.stderr
    assert "stranger.word" in replayed.stdout
    assert "no class is known for messages with the tag" in replayed.stdout


def test_modules_with_further_messages_may_be_specified(
    flykka_replay: Shell, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)

    assert flykka_replay(trace, "--import", "colorsys")[0] == 0
    assert "colorsys" in sys.modules
    code, _, err = flykka_replay(trace, "--import", "no_such_module")
    assert (code, err) == (2, "flykka replay: no_such_module cannot be imported: No module named 'no_such_module'\n")


@pytest.mark.slow
def test_a_reader_may_close_the_pipe_early(trace: Path) -> None:
    modules = f"--import {__name__} --import {scripted_actors.__name__}"
    command = (
        f"{sys.executable} -m flykka replay {modules} {' '.join([str(trace)] * 50)} | head -1; echo ${{PIPESTATUS[0]}}"
    )

    piped = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)

    assert piped.stdout.splitlines()[-1] == "0"
    assert piped.stderr == ""


def test_results_do_not_overwrite_a_trace(flykka_replay: Shell, trace: Path) -> None:
    recorded = trace.read_bytes()

    code, out, err = flykka_replay(trace, "--junit", trace)

    assert (code, out) == (2, "")
    assert err == f"flykka replay: {trace} is a trace itself: name another file with --junit\n"
    assert trace.read_bytes() == recorded


@pytest.mark.parametrize("number", ["-3", "0", "x"])
def test_turn_numbers_start_at_one(flykka_replay: Shell, trace: Path, number: str) -> None:
    code, out, err = flykka_replay(trace, "--until", number)

    assert (code, out) == (2, "")
    assert f"argument --until: {number!r} is not a whole number from 1" in err


def test_a_run_without_replayable_turns_is_not_reported_as_matching(
    flykka_replay: Shell, trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(sys.modules[__name__], "Echo")
    monkeypatch.delattr(scripted_actors, "ScriptedActor")
    report = tmp_path / "replay.xml"

    code, out, _ = flykka_replay(trace, "--junit", report)

    assert code == 2
    assert out.splitlines()[0].startswith(f"{trace}: nothing could be replayed of its ")
    assert "no longer has a class or function 'Echo'" in out
    error = ElementTree.parse(report).find("testcase/error")
    assert error is not None
    assert error.get("message") == "none of its actors could be replayed"
    with pytest.raises(AssertionError, match="none of its actors could be replayed"):
        assert_replays(trace)
