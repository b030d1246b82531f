"""Traces as tests: each trace is replayed, and a folder without traces is an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from flykka.runtime.errors import TraceError
from flykka.runtime.replay.divergence import DivergenceError
from flykka.runtime.replay.replayer import TraceReplayer
from flykka.runtime.testing import assert_replays, replay_cases
from flykka.runtime.testing.seeded import SeededSystem
from flykka.runtime.trace.record.recorder import TraceRecorder
from tests.runtime.scripted_actors import says, scripted_actor


def record_scripted_actors(path: Path) -> Path:
    with SeededSystem(3, recorder=TraceRecorder(path)) as system:
        system.spawn(scripted_actor([], {}), "a").tell(says("x"))
        system.spawn(scripted_actor([], {"x": lambda c: c.parent.tell(says("y"))}), "b").tell(says("x"))
        system.run_until_idle()
    return path


def test_a_test_fails_if_its_trace_does_not_replay(tmp_path: Path) -> None:
    path = record_scripted_actors(tmp_path / "run.trace")
    script = {"x": lambda c: c.parent.tell(says("y"))}
    good = TraceReplayer(actors={"/user/b": scripted_actor([], script)})
    bad = TraceReplayer(actors={"/user/b": scripted_actor([])})

    assert assert_replays(path, good, whole=True).compared > 0
    with pytest.raises(DivergenceError, match="expected  sends  /user <- Say"):
        assert_replays(path, bad)


def test_a_complete_replay_fails_if_an_actor_is_not_replayed(tmp_path: Path) -> None:
    path = record_scripted_actors(tmp_path / "run.trace")

    assert_replays(path)
    with pytest.raises(AssertionError, match="not replayed: /user/b: "):
        assert_replays(path, whole=True)


def test_a_complete_replay_fails_on_a_truncated_trace(tmp_path: Path) -> None:
    path = record_scripted_actors(tmp_path / "run.trace")
    path.write_bytes(path.read_bytes()[:-3])
    script = {"x": lambda c: c.parent.tell(says("y"))}

    with pytest.raises(AssertionError, match="offset="):
        assert_replays(path, TraceReplayer(actors={"/user/b": scripted_actor([], script)}), whole=True)


def test_a_missing_trace_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "run.trace").write_text("none")

    with pytest.raises(TraceError):
        assert_replays(tmp_path / "run.trace")


def test_traces_of_a_folder_are_sorted_by_name(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    for name in ("b.trace", "a.trace", "below/c.trace", "no-trace.txt"):
        (tmp_path / name).touch()

    assert [path.name for path in replay_cases(tmp_path)] == ["a.trace", "b.trace", "c.trace"]


def test_a_folder_without_traces_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no \*.trace in"):
        replay_cases(tmp_path)
