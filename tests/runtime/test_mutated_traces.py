"""Traces with valid checksums and mutated content are either read or refused with the documented exit code."""

from __future__ import annotations

import os
import sys
import time
import zlib
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from random import Random
from unittest.mock import patch

import msgpack
import pytest

from flykka.cli.main import main
from flykka.errors import TraceSelectionError
from flykka.replay.replayer import Replayer
from flykka.runtime.errors import ReplaySessionError, TraceError
from flykka.runtime.replay.divergence import DivergenceError
from flykka.runtime.trace.file.frame_format import END, NAMES, block, end, framed, header, snapshots
from flykka.runtime.trace.file.order import exactly_in_order, nearly_in_order
from flykka.traces.record_json import record_json
from flykka.traces.trace import Trace
from flykka.views.text.turns import row_lines, row_of
from tests.bad_input.recorded import record_echo
from tests.layout.sources import ROOT
from tests.runtime.replay import couriers
from tests.runtime.test_trace_ring import office
from tests.runtime.trace_mutations import TraceMutator

SEED = int(os.environ.get("FLYKKA_MUTATIONS_SEED", "1"))
COUNT = int(os.environ.get("FLYKKA_MUTATED_TRACES", "200000"))
MODULES = ["tests.bad_input.recorded", "tests.runtime.replay.couriers", "tests.runtime.test_trace_ring"]
IMPORTS = [word for module in MODULES for word in ("--import", module)]
REFUSALS = (TraceError, TraceSelectionError, ReplaySessionError)
CODES = {0, 1, 2}


def command(*words: str) -> Callable[[Path], object]:
    def run(path: Path) -> int:
        out, err = StringIO(), StringIO()
        with redirect_stdout(out), redirect_stderr(err), patch.object(sys, "stdin", StringIO("step 3\nstate\nwhy\n")):
            code = main([*words, str(path)])
        assert code in CODES, err.getvalue()
        return code

    return run


def show(path: Path) -> None:
    trace = Trace.open(path)
    list(row_lines(row_of(each, 0) for each in nearly_in_order(trace.records())))
    _ = trace.truncated


def as_json(path: Path) -> None:
    for each in exactly_in_order(Trace.open(path)):
        record_json(each)


def replay(path: Path) -> None:
    with suppress(DivergenceError):
        Replayer(modules=MODULES).engine(path).run()


READERS: list[Callable[[Path], object]] = [show, show, as_json, replay, replay, replay]
COMMANDS = [
    *(command("trace", each) for each in ("show", "stats", "story", "diagram", "check")),
    command("replay", *IMPORTS),
    command("debug", *IMPORTS),
    command("whatif", *IMPORTS, "--at", "5", "--drop"),
    command("why", *IMPORTS, "--trace"),
    command("shrink"),
]


def read_mutations(count: int, seed: int, folder: Path, commands: float = 0.01) -> Counter[str]:
    """Count the mutated traces by outcome: read, or refused with an error. Some are also read by CLI commands."""
    random, outcomes = Random(seed), Counter[str]()
    weights, mutators = zip(*_bases(folder, seed), strict=True)
    for number in range(count):
        (mutator,) = random.choices(mutators, weights)
        read = random.choice(COMMANDS if random.random() < commands else READERS)
        path = folder / "mutated.trace"
        path.write_bytes(mutator.mutated())
        try:
            code = read(path)
        except REFUSALS as refusal:
            outcomes[type(refusal).__name__] += 1
        except BaseException as error:
            kept = folder.parent / f"mutation-{seed}-{number}.trace"
            kept.write_bytes(path.read_bytes())
            raise AssertionError(f"mutation {number} of seed {seed}, {read}: {kept}") from error
        else:
            outcomes["read" if code is None else f"exit code {code}"] += 1
    return outcomes


def _bases(folder: Path, seed: int) -> list[tuple[int, TraceMutator]]:
    office(folder / "office.trace", ring=40, rounds=45)
    paths = {
        record_echo(folder / "notes.trace"): 500,
        couriers.record_deliveries(folder / "couriers.trace", ring=12).path: 300,
        folder / "office.trace": 100,
        ROOT / "tests" / "histories" / "savepoints.trace": 1,
    }
    return [
        (weight, TraceMutator(path.read_bytes(), seed + place)) for place, (path, weight) in enumerate(paths.items())
    ]


def test_mutated_traces_are_read_or_refused(tmp_path: Path) -> None:
    outcomes = read_mutations(150, SEED, tmp_path, commands=0.1)

    assert outcomes["read"] > 20
    assert outcomes["TraceError"] > 20


@pytest.mark.long
@pytest.mark.timeout(0)
def test_many_mutated_traces_are_read_or_refused(tmp_path: Path) -> None:
    outcomes = read_mutations(COUNT, SEED, tmp_path)

    print(outcomes)
    assert outcomes.total() == COUNT


def a_trace(*frames: bytes) -> bytes:
    return b"".join([header("recorded", 1), *frames, end({})])


def a_chunk(
    refs: object = (("/user/a", 1),),
    values: object = (b"\x81\xa0\xa1x",),
    others: object = (),
    columns: object = None,
) -> bytes:
    packed: bytes = msgpack.packb((refs, values, others, tuple(SOUND.values()) if columns is None else columns))
    return packed


SOUND: dict[str, object] = {
    "sequences": (1,),
    "times": (0,),
    "recipients": (0,),
    "senders": (None,),
    "causes": (None,),
    "kinds": (0,),
    "messages": (0,),
    "effects": (None,),
    "failures": (None,),
    "digests": (None,),
}


def columns(**changed: object) -> tuple[object, ...]:
    return tuple({**SOUND, **changed}.values())


MIB = 1 << 20
RING = {"limit": 1, "not_kept": 1, "begins_at": 2}
INVALID = {
    "no stream": framed(b"\x01" + b"nothing"),
    "a stream that goes on": framed(block([a_chunk()])[8:] + b"more"),
    "half a chunk": block([a_chunk()[:-3]]),
    "no chunk": block([msgpack.packb(7)]),
    "a ref without a path": block([a_chunk(refs=((7, 1),))]),
    "a ref with a negative incarnation": block([a_chunk(refs=(("/user/a", -1),))]),
    "a number for a message": block([a_chunk(values=(7,))]),
    "a recipient from the end": block([a_chunk(columns=columns(recipients=(-1,)))]),
    "a recipient that is not there": block([a_chunk(columns=columns(recipients=(9,)))]),
    "a kind that is not there": block([a_chunk(columns=columns(kinds=(3,)))]),
    "a negative number of a turn": block([a_chunk(columns=columns(sequences=(-4,)))]),
    "a huge number of a turn": block([a_chunk(columns=columns(sequences=((1 << 64) - 1,)))]),
    "no number of a turn": block([a_chunk(columns=columns(sequences=(float("nan"),)))]),
    "true for a time": block([a_chunk(columns=columns(times=(True,)))]),
    "a column that is shorter": block([a_chunk(columns=columns(digests=()))]),
    "a text for effects": block([a_chunk(columns=columns(effects=("x",)))]),
    "an effect from the end": block([a_chunk(columns=columns(effects=([[-1, 0]],)))]),
    "an effect without its parts": block([a_chunk(columns=columns(effects=([[0]],)))]),
    "a text where an effect has a number": block([a_chunk(columns=columns(effects=([[11, "x"]],)))]),
    "a target from the end": block([a_chunk(columns=columns(effects=([[0, -1, 0]],)))]),
    "a failure that is not there": block([a_chunk(columns=columns(failures=(5,)))]),
    "another record of no kind": block([a_chunk(others=((0, 99, 1, 0),))]),
    "a spawn with a number for Props": block([a_chunk(others=((0, 3, 1, 0, 0, 0, "a:A", 7),))]),
    "a map in a chunk": block([a_chunk(refs={"/user/a": 1})]),
    "invalid UTF-8": block([a_chunk().replace(b"/user/a", b"/us\xff\xff/a")]),
    "a list for schemas": framed(bytes([NAMES]) + msgpack.packb({"schemas": ["x"]})),
    "a text for a size": framed(bytes([END]) + msgpack.packb({"capped": {"sequence": "x", "max_bytes": 1}})),
}


def compressed(content: bytes) -> bytes:
    return framed(b"\x01" + zlib.compress(content, 6))


BOMBS: dict[str, Callable[[], bytes]] = {
    "zeros": lambda: compressed(bytes(128 * MIB)),
    "many small chunks": lambda: compressed(a_chunk() * (1 << 20)),
    "many turns": lambda: block([a_chunk(columns=columns(sequences=(1,) * 4_000_000))]),
    "nested arrays": lambda: block([msgpack.packb([[], [], [], [[[]] * 3_000_000]])]),
    "arrays that claim items": lambda: block([b"\x94\x90\x90\x90" + b"\xdd\x00\x0f\x00\x00" * 1000]),
    "many snapshots": lambda: snapshots([["/user/a", 1, None, "a:A", None, bytes(64 * MIB), None]]),
}


@pytest.mark.parametrize("frame", INVALID.values(), ids=INVALID)
def test_the_error_for_invalid_content_states_its_offset(tmp_path: Path, frame: bytes) -> None:
    path = tmp_path / "run.trace"
    path.write_bytes(a_trace(frame))

    for read in (show, as_json):
        with pytest.raises(TraceError, match=r"run\.trace.*(at byte \d+|header cannot be read)"):
            read(path)
    assert command("trace", "show")(path) == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [pytest.param(make, id=name, marks=pytest.mark.long if name == "zeros" else ()) for name, make in BOMBS.items()],
)
def test_a_decompression_bomb_is_refused_quickly(tmp_path: Path, make: Callable[[], bytes]) -> None:
    path, frame = tmp_path / "run.trace", make()
    path.write_bytes(a_trace(frame) if frame[8] == 1 else b"".join([header("r", 1, ring=RING), frame, end({})]))
    began = time.process_time()

    for read in (show, replay) if frame[8] == 1 else (replay,):
        with pytest.raises(TraceError):
            read(path)

    assert time.process_time() - began < 5
