"""The golden traces replay in every version, with any hash seed, without Spark and Java."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from flykka.messages.attempt.answers import StageResult
from flykka.messages.attempt.commands import AdvanceProcessingTime, AdvanceWatermark
from flykka.messages.control.job import JobRestored
from flykka.replay.replayer import Replayer
from flykka.runtime.testing.replays import assert_replays, replay_cases
from flykka.runtime.trace.file.reader import TraceReader
from flykka.runtime.trace.record.recorder import TraceRecorder
from tests.histories.record import FOLDER, NAMES
from tests.histories.runs import RUNS, SEED

MAX_BYTES = 300_000
CLIENT = re.compile(r"^/user/(client$|job-client-|job-listener-)")

WITHOUT_SPARK = """
import sys

class WithoutSpark:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyspark", "py4j"):
            raise ImportError(f"{name} must not be imported by a replay")

sys.meta_path.insert(0, WithoutSpark())

from flykka.cli.main import main

sys.exit(main(["replay", "--import", "tests.actors.peer", *sys.argv[1:]]))
"""


def golden(name: str) -> Path:
    return FOLDER / f"{name}.trace"


def test_every_run_has_a_golden_trace_and_vice_versa() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.trace")) == sorted(NAMES)
    assert [name for name in NAMES if golden(name).stat().st_size > MAX_BYTES] == []


def test_timers_of_both_kinds_emit_rows_before_and_after_a_restore() -> None:
    firing: dict[tuple[str, int], type] = {}
    kinds_in_order: list[type] = []
    for turn in TraceReader.open(golden("timers")):
        match turn.message:
            case JobRestored(checkpoint_id=int()):
                kinds_in_order.append(JobRestored)
            case AdvanceProcessingTime() | AdvanceWatermark():
                firing[turn.recipient.path, turn.message.stage] = type(turn.message)
            case StageResult(stage=stage, rows_out=rows_out) if turn.sender is not None:
                kind = firing.pop((turn.sender.path, stage), None)
                if kind is not None and rows_out:
                    kinds_in_order.append(kind)

    last_restore = len(kinds_in_order) - 1 - kinds_in_order[::-1].index(JobRestored)
    kinds: set[type] = {AdvanceProcessingTime, AdvanceWatermark}
    assert kinds <= set(kinds_in_order[:last_restore])
    assert kinds <= set(kinds_in_order[last_restore:])


@pytest.mark.slow
@pytest.mark.parametrize("hash_seed", ["1", pytest.param("2", marks=pytest.mark.long)])
def test_golden_traces_replay_without_spark_and_java_under_any_hash_seed(hash_seed: str, tmp_path: Path) -> None:
    here = str(FOLDER.parents[1])
    environment = {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": here, "PATH": str(tmp_path)}

    replayed = subprocess.run(
        [sys.executable, "-c", WITHOUT_SPARK, *(str(golden(name)) for name in NAMES)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (replayed.returncode, replayed.stderr) == (0, "")
    assert replayed.stdout.count(": as recorded; ") == len(NAMES)


@pytest.mark.parametrize(
    "trace",
    [
        pytest.param(each, marks=pytest.mark.long if number % 3 else ())
        for number, each in enumerate(replay_cases(FOLDER))
    ],
    ids=lambda trace: trace.stem,
)
def test_only_clients_are_not_replayed(trace: Path) -> None:
    result = assert_replays(trace, Replayer())

    left = [line.partition(": ")[0] for line in result.boundary]
    assert [path for path in left if not CLIENT.search(path)] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["savepoints", pytest.param("unaligned", marks=pytest.mark.long)])
def test_a_replay_leads_every_actor_through_the_same_states(name: str, tmp_path: Path) -> None:
    recorded = tmp_path / "run.trace"

    RUNS[name](TraceRecorder(recorded, digests=True), SEED)

    assert Replayer().replay(recorded).divergence is None
