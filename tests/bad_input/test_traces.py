"""Tests files that are not traces, and incomplete traces: every command reports them in one sentence with its exit
code.
"""

from __future__ import annotations

import json
import os
import re
import struct
import zlib
from pathlib import Path
from xml.etree import ElementTree

import msgpack
import pytest

from tests.bad_input.recorded import record_echo
from tests.flykka.cli.shell import Shell

pytestmark = pytest.mark.slow

READ, UNREADABLE = 0, 2
READERS = (["trace", "show"], ["trace", "stats"], ["trace", "diagram"], ["trace", "check"], ["replay"], ["debug"])
"""Commands that read any trace, and need no other arguments."""
OPENERS = (*READERS, ["trace", "story", "--job", "any"], ["whatif", "--at", "3", "--drop"], ["shrink"])
"""Commands that first check that the file is a trace."""


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return record_echo(tmp_path / "run.trace")


def with_header(trace: Path, **fields: object) -> Path:
    data = trace.read_bytes()
    length, _ = struct.unpack_from("<II", data)
    header = msgpack.packb({**msgpack.unpackb(data[8 : 8 + length]), **fields})
    trace.write_bytes(struct.pack("<II", len(header), zlib.crc32(header)) + header + data[8 + length :])
    return trace


@pytest.mark.parametrize("command", OPENERS, ids=" ".join)
@pytest.mark.parametrize(
    "data",
    [b"Dear diary, today I have recorded nothing.", b"", b"\0" * 20, b"print(1)\n" * 10_000],
    ids=["text", "empty", "zeros", "program"],
)
def test_a_file_that_is_not_a_trace_is_reported_as_such(
    flykka: Shell, tmp_path: Path, command: list[str], data: bytes
) -> None:
    (tmp_path / "some.file").write_bytes(data)

    code, out, err = flykka(*command, tmp_path / "some.file")

    assert (code, out) == (UNREADABLE, "")
    assert f"{tmp_path / 'some.file'} " in err
    assert "is not a trace" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("command", OPENERS, ids=" ".join)
def test_an_error_names_a_missing_file(flykka: Shell, tmp_path: Path, command: list[str]) -> None:
    code, out, err = flykka(*command, tmp_path / "gone.trace")

    assert (code, out) == (UNREADABLE, "")
    # The argument could also be a seed if the command accepts seeds.
    assert "there is no file " in err or "there is no such file" in err
    assert str(tmp_path / "gone.trace") in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("command", OPENERS, ids=" ".join)
def test_a_folder_is_reported_as_such(flykka: Shell, tmp_path: Path, command: list[str]) -> None:
    code, out, err = flykka(*command, tmp_path)

    assert (code, out) == (UNREADABLE, "")
    assert err.endswith(f"{tmp_path} is a folder; a trace is a file\n")
    assert err.count("\n") == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
@pytest.mark.parametrize("command", READERS, ids=" ".join)
def test_an_unreadable_file_is_reported_with_the_reason(flykka: Shell, trace: Path, command: list[str]) -> None:
    trace.chmod(0)

    code, out, err = flykka(*command, trace)

    assert (code, out) == (UNREADABLE, "")
    assert err.endswith(f"{trace} cannot be read: Permission denied\n")


@pytest.mark.parametrize("command", READERS, ids=" ".join)
def test_a_newer_trace_is_reported_with_the_version_that_reads_it(
    flykka: Shell, trace: Path, command: list[str]
) -> None:
    with_header(trace, version=99, package="9.9.9")

    code, out, err = flykka(*command, trace)

    assert (code, out) == (UNREADABLE, "")
    assert "has format 99, and this version reads 4" in err
    assert err.endswith("read it with flykka 9.9.9 or newer\n")


@pytest.mark.parametrize("command", READERS, ids=" ".join)
def test_the_intact_part_of_a_truncated_trace_is_read(flykka: Shell, trace: Path, command: list[str]) -> None:
    data = trace.read_bytes()
    trace.write_bytes(data[:-5])

    code, out, err = flykka(*command, trace)

    assert (code, err) == (READ, "")
    assert "cut off" in out


@pytest.mark.parametrize("command", [each for each in READERS if "diagram" not in each], ids=" ".join)
def test_a_flipped_bit_is_an_error_after_the_intact_part(flykka: Shell, trace: Path, command: list[str]) -> None:
    data = bytearray(trace.read_bytes())
    data[-20] ^= 0b100
    trace.write_bytes(data)

    code, out, err = flykka(*command, trace)

    assert code == UNREADABLE
    assert re.fullmatch(
        rf"flykka {' '.join(command)}: {trace} is damaged at byte [\d,]+, and was read up to there only:"
        r" the checksum of a frame does not match\n",
        err,
    )
    assert "the checksum of a frame does not match" in out


@pytest.mark.parametrize(("words", "code"), [(["--limit", "9"], READ), ([], UNREADABLE)], ids=["a part", "all"])
def test_requested_turns_before_the_damage_are_shown(
    flykka: Shell, tmp_path: Path, words: list[str], code: int
) -> None:
    trace = record_echo(tmp_path / "run.trace", words=tuple(map(str, range(3_000))))
    data = bytearray(trace.read_bytes())
    data[-40] ^= 0b100
    trace.write_bytes(data)

    result = flykka("trace", "show", trace, *words)

    assert result[0] == code
    assert "Note(text=0)" in result[1]


def test_a_damaged_trace_among_others_fails_the_replay(flykka: Shell, trace: Path, tmp_path: Path) -> None:
    other = record_echo(tmp_path / "other.trace")
    data = bytearray(trace.read_bytes())
    data[-20] ^= 0b100
    trace.write_bytes(data)

    code, _, err = flykka("replay", trace, other, "--junit", tmp_path / "replay.xml")
    result = flykka("replay", trace, other, "--json")

    suite = ElementTree.parse(tmp_path / "replay.xml").getroot()
    assert (code, suite.get("errors")) == (UNREADABLE, "1")
    assert [case.findtext("error") is not None for case in suite] == [True, False]
    assert f"{trace} is damaged at byte" in err
    traces = json.loads(result[1])["traces"]
    assert [each["exit_code"] for each in traces] == [UNREADABLE, READ]
    assert (traces[0]["truncated"]["is_cut_off"], traces[0]["compared"]) == (False, 0)


def test_a_diagram_without_intact_turns_is_not_drawn(flykka: Shell, trace: Path) -> None:
    data = bytearray(trace.read_bytes())
    data[-20] ^= 0b100
    trace.write_bytes(data)

    code, out, err = flykka("trace", "diagram", trace)

    assert (code, out) == (UNREADABLE, "")
    assert err.endswith("there is nothing to draw\n")


@pytest.mark.parametrize("place", [0, 1], ids=["first", "second"])
def test_the_unreadable_one_of_two_traces_is_named(flykka: Shell, trace: Path, tmp_path: Path, place: int) -> None:
    files = [trace, trace]
    files[place] = tmp_path / "gone.trace"

    code, out, err = flykka("trace", "diff", *files)

    assert (code, out) == (UNREADABLE, "")
    assert err == f"flykka trace diff: there is no file {tmp_path / 'gone.trace'}\n"


def test_a_trace_without_a_simulation_cannot_be_shrunk(flykka: Shell, trace: Path) -> None:
    code, out, err = flykka("shrink", trace)

    assert (code, out) == (UNREADABLE, "")
    assert str(trace) in err
    assert "simulation" in err


def test_a_fork_at_a_missing_turn_reports_the_last_turn(flykka: Shell, trace: Path) -> None:
    code, out, err = flykka("whatif", trace, "--at", "999", "--drop")

    assert (code, out) == (UNREADABLE, "")
    assert f"{trace} has no turn 999: its last one is turn " in err


@pytest.mark.parametrize(
    "words",
    [
        ["whatif", "TRACE", "--at", "5", "--drop", "--record", "OUTPUT"],
        ["trace", "diagram", "TRACE", "--output", "OUTPUT"],
    ],
    ids=lambda words: words[0],
)
def test_an_unwritable_output_is_named_instead_of_the_input(
    flykka: Shell, trace: Path, tmp_path: Path, words: list[str]
) -> None:
    files = {"TRACE": trace, "OUTPUT": tmp_path / "nowhere" / "out"}

    code, _, err = flykka(*(files.get(word, word) for word in words))

    assert code == UNREADABLE
    assert err.endswith(f"{files['OUTPUT']} cannot be written: No such file or directory\n")
