"""Recorded runs as tests: each trace of a folder is replayed, and must not diverge."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from flykka.runtime.replay.replayer import TraceReplayer

if TYPE_CHECKING:
    from flykka.runtime.replay.replayer import ReplayResult


def assert_replays(
    trace: str | os.PathLike[str], replayer: TraceReplayer | None = None, *, whole: bool = False
) -> ReplayResult:
    """Replay a trace. Returns the result, for further assertions.

    Args:
        trace: the path of a trace.
        replayer: provides the actors whose Props the trace does not contain; by default none.
        whole: also fail if the trace is truncated, or if actors were not replayed.

    Raises:
        DivergenceError: the actors had other effects. An `AssertionError` whose text is the report.
        AssertionError: no actor could be replayed, for example because their classes no longer exist.
        TraceError: the file is not a trace.
    """
    result = (replayer or TraceReplayer()).replay(trace, raise_on_divergence=True)
    assert not result.is_empty, f"{trace}: none of its actors could be replayed: {'; '.join(result.boundary)}"
    if whole:
        assert not result.boundary, f"{trace}: not replayed: {'; '.join(result.boundary)}"
        assert result.truncated is None, f"{trace}: {result.truncated}"
    return result


def replay_cases(folder: str | os.PathLike[str], pattern: str = "*.trace") -> list[Path]:
    """Return the traces of a folder and its subfolders, sorted by name, for `pytest.mark.parametrize`.

    Raises:
        FileNotFoundError: there is no trace. A test without cases would always pass.
    """
    cases = sorted(path for path in Path(folder).rglob(pattern) if path.is_file())
    if not cases:
        raise FileNotFoundError(f"there is no {pattern} in {folder}")
    return cases
