"""Tests traces that are complete but cannot be replayed: the error names the change, with its exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from random import Random
from shutil import copytree

import pytest

from flykka.runtime.actor import Actor
from flykka.runtime.props import Props
from flykka.runtime.testing.seeded import SeededSystem
from flykka.runtime.trace.record.recorder import TraceRecorder
from tests.bad_input.recorded import Counter, Note, ReadsTheClock, Sleeps, StartsAThread, record_echo
from tests.flykka.cli.shell import Shell
from tests.layout.sources import ROOT

SAME, DIVERGED, UNREADABLE = 0, 1, 2

ACTORS = """
from flykka.runtime import Actor, Message, message

@message("elsewhere.go")
class Go(Message):
    '''test -> Crowd: greet everybody.'''

@message("elsewhere.greet")
class Greet(Message):
    '''Crowd -> Crowd: be greeted.'''
    name: str

class Crowd(Actor):
    def handle_message(self, message):
        if isinstance(message, Go):
            for name in {"Ada", "Barbara", "Edsger", "Grace", "Tony"}:
                self.context.ref.tell(Greet(name=name))
"""
RECORD = """
from elsewhere import Crowd, Go
from flykka.runtime import Props
from flykka.runtime.testing import SeededSystem
from flykka.runtime.trace.record.recorder import TraceRecorder

with SeededSystem(recorder=TraceRecorder("run.trace")) as system:
    crowd = system.spawn(Props(Crowd), "crowd")
    crowd.tell(Go())
    system.run_until_idle()
"""
COMMAND = "import sys; from flykka.cli.main import main; sys.exit(main())"


class ActorsFolder:
    """A folder with a module of actors and a recorded run, and the command line in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def change(self, code: str) -> None:
        (self.folder / "elsewhere.py").write_text(code, encoding="utf-8")

    def record(self) -> None:
        self._run("-c", RECORD, hash_seed="1")

    def replay(self, hash_seed: str = "1") -> tuple[int, str]:
        ran = self._run("-c", COMMAND, "replay", "run.trace", "--import", "elsewhere", hash_seed=hash_seed)
        return ran.returncode, ran.stdout + ran.stderr

    def _run(self, *words: str, hash_seed: str) -> subprocess.CompletedProcess[str]:
        # Bytecode of the old module would be reused if the new module were written within the same second.
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONDONTWRITEBYTECODE": "1"}
        environment["PYTHONPATH"] = str(ROOT)
        return subprocess.run(
            [sys.executable, *words], cwd=self.folder, env=environment, capture_output=True, text=True, check=False
        )


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that tests must not change."""
    folder = ActorsFolder(tmp_path_factory.mktemp("recorded"))
    folder.change(ACTORS)
    folder.record()
    return folder.folder


@pytest.fixture
def elsewhere(recorded: Path, tmp_path: Path) -> ActorsFolder:
    copytree(recorded, tmp_path, dirs_exist_ok=True)
    return ActorsFolder(tmp_path)


@pytest.mark.slow
def test_actors_in_the_current_folder_are_found(elsewhere: ActorsFolder) -> None:
    code, out = elsewhere.replay()

    assert code == SAME
    assert "not replayed" not in out


@pytest.mark.slow
def test_actors_with_changed_code_diverge_with_a_message(elsewhere: ActorsFolder) -> None:
    elsewhere.change(ACTORS.replace('"Ada", ', ""))

    code, out = elsewhere.replay()

    assert code == DIVERGED
    assert "missing   sends  /user/crowd <- Greet(name=Ada)" in out
    assert "the code of elsewhere has changed since" in out


@pytest.mark.slow
def test_missing_actors_are_reported_without_a_replay_result(elsewhere: ActorsFolder) -> None:
    elsewhere.change(ACTORS.replace("class Crowd", "class Throng"))

    code, out = elsewhere.replay()

    assert code == UNREADABLE
    assert "nothing could be replayed of its" in out
    assert "not replayed: /user/crowd: elsewhere no longer has a class or function 'Crowd'" in out


@pytest.mark.slow
def test_replay_names_a_missing_module(elsewhere: ActorsFolder) -> None:
    (elsewhere.folder / "elsewhere.py").unlink()

    code, out = elsewhere.replay()

    assert code == UNREADABLE
    assert "flykka replay: elsewhere cannot be imported: No module named 'elsewhere'" in out


@pytest.mark.slow
def test_a_missing_message_type_ends_the_replay(elsewhere: ActorsFolder) -> None:
    elsewhere.change(ACTORS.replace('"elsewhere.go"', '"elsewhere.gone"'))

    code, out = elsewhere.replay()

    assert code == UNREADABLE
    assert "elsewhere.go" in out


@pytest.mark.slow
def test_an_actor_that_sends_in_set_order_diverges_under_another_hash_seed(elsewhere: ActorsFolder) -> None:
    code, out = elsewhere.replay(hash_seed="2")

    assert code == DIVERGED
    assert "PYTHONHASHSEED" in out


@pytest.mark.slow
@pytest.mark.long  # Golden traces cover this case in each run.
def test_all_other_actors_replay_under_another_hash_seed(elsewhere: ActorsFolder) -> None:
    elsewhere.change(ACTORS.replace("in {", "in sorted({").replace('"}:', '"}):'))
    elsewhere.record()

    code, out = elsewhere.replay(hash_seed="2")

    assert code == SAME
    assert "as recorded" in out


@pytest.mark.parametrize(
    ("actor", "called"),
    [(ReadsTheClock, "time.time_ns"), (Sleeps, "time.sleep"), (StartsAThread, "thread")],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_an_unreplayable_actor_is_named_with_its_call(
    flykka: Shell, tmp_path: Path, actor: type[Actor], called: str
) -> None:
    trace = record_echo(tmp_path / "run.trace", actor)

    code, out, _ = flykka("replay", trace)

    assert code == DIVERGED
    assert "/user/actor <- Note(text=one)" in out
    assert called in out.partition("note ")[2]


def large(path: Path, *, megabytes: int, max_bytes: int | None = None) -> Path:
    """Record an actor that receives a message of `megabytes` MB, and a word afterwards."""
    with SeededSystem(name="recorded", recorder=TraceRecorder(path, max_bytes=max_bytes)) as system:
        ref = system.spawn(Props(Counter), "actor")
        ref.tell(Note(text="before"))
        ref.tell(Note(text="x" * megabytes * 1_000_000))
        ref.tell(Note(text="behind"))
        system.run_until_idle()
    return path


def test_a_message_too_large_for_a_trace_is_reported_with_its_size(flykka: Shell, tmp_path: Path) -> None:
    trace = large(tmp_path / "run.trace", megabytes=20)

    output = flykka("trace", "show", trace)
    replayed = flykka("replay", trace)

    assert trace.stat().st_size < 100_000
    assert output[0] == SAME
    assert "bad_input.note of 20,000,000 bytes, too large for a trace" in output[1]
    assert "Note(text=behind)" in output[1]
    assert replayed[0] == UNREADABLE
    assert replayed[1].startswith("CANNOT GO ON at turn ")
    assert "the trace does not contain this message, so it cannot be handled: bad_input.note of 20,0" in replayed[1]


@pytest.mark.parametrize("command", [["trace", "show"], ["trace", "stats"], ["replay"], ["debug"]], ids=" ".join)
def test_a_recording_truncated_at_its_size_limit_is_reported(flykka: Shell, tmp_path: Path, command: list[str]) -> None:
    trace = large(tmp_path / "run.trace", megabytes=1, max_bytes=600)

    code, out, _ = flykka(*command, trace)

    assert trace.stat().st_size <= 600
    assert code == SAME
    assert "600" in out


def test_a_trace_below_its_size_limit_is_complete_and_replays(flykka: Shell, tmp_path: Path) -> None:
    chance = Random(1)
    path = tmp_path / "run.trace"
    with SeededSystem(name="recorded", recorder=TraceRecorder(path, max_bytes=30_000)) as system:
        ref = system.spawn(Props(Counter), "actor")
        for _ in range(2_000):
            ref.tell(Note(text=chance.randbytes(50).hex()))
        system.run_until_idle()

    code, out, _ = flykka("replay", path)

    assert path.stat().st_size <= 30_000
    assert code == SAME
    assert "as recorded; 255 turns" in out
    assert "turn 257 and all later turns are missing" in out


def test_an_actor_missing_from_the_trace_cannot_be_replayed(flykka: Shell, tmp_path: Path) -> None:
    trace = record_echo(tmp_path / "run.trace", Counter)

    code, out, err = flykka("replay", trace, "--actor", "nobody")

    assert (code, out) == (UNREADABLE, "")
    assert f"{trace} has no turn of an actor /user/nobody" in err


def test_the_beginning_of_an_actor_path_may_be_omitted(flykka: Shell, tmp_path: Path) -> None:
    trace = record_echo(tmp_path / "run.trace", Counter)

    code, out, _ = flykka("replay", trace, "--actor", "actor")

    assert code == SAME
    assert "not replayed" not in out
