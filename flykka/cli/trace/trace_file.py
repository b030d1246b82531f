"""Shared code of the commands on traces: opens a trace, and maps errors to exit codes."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module

from fsspec.core import url_to_fs

from flykka.cli.exit_codes import OK, UNREADABLE, broken, fail, print_no_more
from flykka.errors import TraceSelectionError
from flykka.runtime.errors import TraceError
from flykka.runtime.temporary_folders import TemporaryFolder
from flykka.runtime.trace.file.reader import Damage, TraceReader


def run_on_trace(name: str, address: str, command: Callable[[TraceReader], int]) -> int:
    """Open a trace, run `command`, and return its exit code, or the exit code of an error.

    Damage in the part that `command` reads is an error, even if many records could be read before it. `name` is the
    command as typed, `flykka trace`. The reader of the output may close it early, as `head` does.
    """
    try:
        with opened(address) as trace:
            code = command(trace)
        sys.stdout.flush()
        if trace.damage is not None:
            return fail(f"{name}: {damaged(address, trace.damage)}", UNREADABLE)
    except BrokenPipeError:
        print_no_more()
        return OK
    except (TraceError, TraceSelectionError, OSError, ImportError) as unreadable:
        return fail(f"{name}: {reason(address, unreadable)}", UNREADABLE)
    except Exception:  # noqa: BLE001 - the exit code tells it from a file that cannot be read.
        return broken(f"{name}: could not show {address}")
    return code


def on_trace(
    name: str, command: Callable[[TraceReader, argparse.Namespace], int]
) -> Callable[[argparse.Namespace], int]:
    """Return the `run` function of a command whose argument `file` is a trace: see `run_on_trace`."""
    return lambda arguments: run_on_trace(name, arguments.file, lambda trace: command(trace, arguments))


@contextmanager
def opened(address: str) -> Iterator[TraceReader]:
    """Open the trace at a path, or a temporary copy of a remote trace. Raises errors that `reason` describes."""
    if "://" not in address:
        yield TraceReader.open(address)
        return
    with TemporaryFolder("trace") as folder:
        fs, location = url_to_fs(address)
        copy = folder / "copy.trace"
        fs.get_file(location, str(copy))
        yield TraceReader.open(copy)


def import_modules(names: Sequence[str]) -> None:
    """Import modules that declare messages and actors. Searches the working directory too, as `python -m` does.

    Raises:
        TraceSelectionError: a module cannot be imported.
    """
    if names and "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    for name in names:
        try:
            import_module(name)
        except ImportError as missing:
            raise TraceSelectionError(f"{name} cannot be imported: {missing}") from missing


def is_the_same_file(output: str, *addresses: str) -> bool:
    return any(os.path.exists(each) and os.path.exists(output) and os.path.samefile(each, output) for each in addresses)


def output_problem(output: str, refusal: OSError) -> str:
    why = "a file with that name exists" if isinstance(refusal, FileExistsError) else refusal.strerror or refusal
    return f"{output} cannot be written: {why}"


def damaged(address: str, damage: Damage) -> str:
    return f"{address} is damaged at byte {damage.offset:,}, and was read up to there only: {damage.reason}"


def reason(address: str, unreadable: Exception) -> str:
    match unreadable:
        case FileNotFoundError():
            return f"there is no file {address}"
        case IsADirectoryError():
            return f"{address} is a folder; a trace is a file"
        case OSError(strerror=str(why)):
            return f"{address} cannot be read: {why}"
        case TraceError() | TraceSelectionError():
            return str(unreadable)
        case _:
            return f"{address} cannot be read: {unreadable}"
