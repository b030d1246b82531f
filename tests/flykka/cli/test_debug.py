"""`flykka debug`: its responses at the prompt, on a pipe and on a terminal, and its exit codes."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from flykka.cli.main import main
from tests.runtime.replay import couriers

Debug = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return couriers.record_deliveries(tmp_path_factory.mktemp("traces") / "couriers.trace").path


@pytest.fixture
def debug(file: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Debug:
    """A function that runs `flykka debug FILE ...` with these lines as input, and returns exit code and output."""

    def run(*arguments: str, typed: str = "", of: Path = file) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
        code = main(["debug", str(of), *arguments])
        out, err = capfd.readouterr()
        return code, out, err

    return run


def test_a_turn_is_shown_with_its_effects_and_its_changes(debug: Debug) -> None:
    code, out, _ = debug("--until", "12")

    assert code == 0
    assert "turn 12  +0.000 s  /user/courier-a <- Bring(parcels=3)\n" in out
    assert "  did      sends  /user/depot <- Parcel(number=1)\n" in out
    assert "  changed  tries: 0 -> 1\n" in out


def test_a_breakpoint_stops_after_its_turn(debug: Debug) -> None:
    _, out, _ = debug("--break", "Courier <- Receipt(number=2)", typed="continue\ncontinue\n")

    stops = [line.split()[1] for line in out.splitlines() if line.startswith("turn ")]
    assert stops == ["21", "22", "39"]
    assert "no other match: this is the end" in out


@pytest.mark.parametrize(
    ("typed", "printed"),
    [
        ("step 5", "turn 17  +0.000 s  /user/courier-b <- Receipt(number=1)"),
        ("next", "turn 18  +0.000 s  /user/courier-a <- "),
        ("back 99\nn", "turn 4  "),
        ("break Receipt\nn", "turn 17  +0.000 s  /user/courier-b <- Receipt(number=1)"),
        ("at 39\nn", "no other match: this is the end"),
        ("back", "turn 11  +0.000 s  /user/courier-b <- Bring(parcels=3)"),
        ("back 99", "this is the start of the trace"),
        ("at 30", "turn 30"),
        ("at 1", "has no turn 1: the next one is turn 4"),
        ("at", "'' is not a number above 0"),
        ("step x", "'x' is not a number above 0"),
        ("list 1", "-> turn 12  +0.000 s"),
        ("state", "Courier(brought=0, depot=/user/depot#1, tries=1, waiting=[1, 2, 3])"),
        ("state courier-b brought", "  0\n"),
        ("state waiting[1]", "  2\n"),
        ("state courier-b nothing", "there is no nothing in it"),
        ("state cellar", "no actor lives at /user/cellar at turn 12; there are /user/courier-a, /user/courier-b"),
        ("state depot", "/user/depot is not replayed: it contains a Scales"),
        ("actors", "/user/depot  is not replayed"),
        ("changes", "waiting[2]: nothing -> 3"),
        ("effects", "starts timer retry"),
        ("why", "it was sent from outside the recorded run"),
        ("back 99\nwhy", "(beginning) why\n  this is the beginning\n"),
        ("back 99\nchanges", "(beginning) changes\n  this is the beginning\n"),
        ("back 99\nlist 1", "(beginning) list 1\n   turn 4  "),
        ("at 30\nwhy", "by  sends  /user/courier-a <- Receipt(number=3)"),
        ("break", "no breakpoints"),
        ("break <-<-", "no breakpoint: '<-<-'; a breakpoint is written as"),
        ("break Receipt\nbreak", "  1  * <- Receipt"),
        ("break Receipt\nclear\ncontinue", "no breakpoint: this is the end"),
        ("where", "changed  tries: 0 -> 1"),
        ("fly", "no command: 'fly'; `help` lists them"),
        ("help", "continue           c"),
        ("", "turn 12"),
    ],
)
def test_every_command_prints_a_response(debug: Debug, typed: str, printed: str) -> None:
    code, out, err = debug("--until", "12", typed=f"{typed}\n")

    assert code == 0
    assert printed in out
    assert err == ""


def test_commands_from_a_pipe_are_echoed_after_the_prompt(debug: Debug) -> None:
    _, out, _ = debug("--until", "12", typed="step\nquit\n")

    assert "(turn 12) step\nturn 13  " in out
    assert out.endswith("(turn 13) quit\n")


def test_a_divergence_is_printed_and_sets_the_exit_code(debug: Debug, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(couriers, "RETRY_MS", 999)

    code, out, _ = debug(typed="continue\n")

    assert code == 1
    assert "DIVERGENCE at turn 11" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--until", "9999"], "has no turn 9999: its last one is turn 39"),
        (["--break", "a <- b <- c"], "no breakpoint: 'a <- b <- c'; a breakpoint is written as"),
    ],
)
def test_unknown_turns_and_actors_are_reported(debug: Debug, arguments: list[str], said: str) -> None:
    code, out, err = debug(*arguments)

    assert (code, out) == (2, "")
    assert said in err


def test_a_file_that_is_not_a_trace_is_reported(debug: Debug, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("dear diary")

    code, out, err = debug(of=path)

    assert (code, out) == (2, "")
    assert err.startswith("flykka debug: ")


def run_flykka(*arguments: str, **options: object) -> subprocess.Popen[str]:
    return subprocess.Popen(  # type: ignore[call-overload]
        [sys.executable, "-m", "flykka", *arguments], text=True, **options
    )


@pytest.mark.slow
def test_commands_may_come_from_a_pipe_whose_reader_may_leave(file: Path) -> None:
    pipe = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    debugger = run_flykka("debug", str(file), "--import", couriers.__name__, **pipe)

    out, err = debugger.communicate("step 3\nquit\n", timeout=60)

    assert (debugger.returncode, err) == (0, "")
    assert "(beginning) step 3\nturn 6 " in out


@pytest.mark.slow
def test_on_a_terminal_an_empty_line_repeats_the_last_command(file: Path) -> None:
    controller, terminal = pty.openpty()
    debugger = run_flykka(
        "debug", str(file), "--import", couriers.__name__, stdin=terminal, stdout=terminal, stderr=terminal
    )
    os.close(terminal)

    os.write(controller, b"step\n\n\nquit\n")
    shown = b""
    while True:
        try:
            read = os.read(controller, 4096)
        except OSError:
            break
        if not read:
            break
        shown += read
    debugger.wait(timeout=60)
    os.close(controller)

    assert b"(turn 6) " in shown


def test_a_missing_module_is_reported(debug: Debug) -> None:
    code, out, err = debug("--import", "no_such_module")

    assert (code, out) == (2, "")
    assert err == "flykka debug: no_such_module cannot be imported: No module named 'no_such_module'\n"
