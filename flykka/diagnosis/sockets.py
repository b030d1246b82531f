"""The way from another terminal into the processes that run jobs: a Unix socket for each, in a folder of the user's.

The folder belongs to the user and to nobody else (0700): a connection tells what jobs are called and what they
failed of. A socket is named after its process. One whose process has gone refuses, and is removed by the next caller.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flykka.messages.wire.ids import JobId

_log = logging.getLogger("flykka")

FOLDER_VARIABLE = "FLYKKA_SOCKETS"
"""Names the folder where it is not to be the user's own below the one for run-time files, or for temporary ones."""

_SUFFIX = ".sock"
_LARGEST = 16 << 20
"""Bytes of one question or answer."""

_TIMEOUT = 2.0
"""Seconds that a process has to say which jobs it runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process that answers, or `silent` where it has taken the question and said nothing in time."""

    pid: int
    answer: dict[str, Any]
    silent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningJob:
    """A job that has not ended, and the process that runs it."""

    job_id: JobId
    name: str
    process: int


def socket_folder() -> Path:
    """Return the folder of the sockets; made where it does not exist yet.

    Raises:
        PermissionError: it belongs to another user, or others may look into it.
        OSError: it cannot be made.
    """
    named = os.environ.get(FOLDER_VARIABLE)
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    folder = Path(named) if named else Path(runtime, "flykka") if runtime else _temporary()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(
            f"{folder} is not a folder of yours alone: remove it, or chmod it to 700, or name another in"
            f" {FOLDER_VARIABLE}"
        )
    return folder


def listening_socket() -> tuple[socket.socket, Path]:
    """A socket of this process that listens, and where it is. Raises as `socket_folder` does."""
    path = socket_folder() / f"{os.getpid()}{_SUFFIX}"
    # Of an earlier process of the same number: this one has none yet.
    path.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listening.bind(str(path))
        listening.listen()
    except OSError:
        listening.close()
        raise
    return listening, path


def ask_all(question: dict[str, Any], timeout: float) -> Iterator[Process]:
    """Put the question to every process that listens, one after the other, by their numbers.

    Raises:
        PermissionError: the folder of the sockets is not the user's alone.
    """
    sockets = [path for path in socket_folder().glob(f"*{_SUFFIX}") if path.stem.isdecimal()]
    for path in sorted(sockets, key=lambda each: int(each.stem)):
        process = _ask(path, question, timeout)
        if process is not None:
            yield process


def running_jobs() -> tuple[RunningJob, ...]:
    """The jobs of all processes, this one included. What cannot be asked is left out, and logged."""
    try:
        answers = list(ask_all({"running": True}, _TIMEOUT))
    except OSError as refused:
        _log.info("which jobs other processes run is not known: %s", refused)
        return ()
    return tuple(
        RunningJob(job_id=JobId(job["id"]), name=job["name"], process=process.pid)
        for process in answers
        for job in process.answer.get("jobs", ())
        if not job["done"]
    )


def _ask(path: Path, question: dict[str, Any], timeout: float) -> Process | None:
    pid = int(path.stem)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as way:
        way.settimeout(timeout)
        try:
            way.connect(str(path))
            send(way, question)
            return Process(pid=pid, answer=receive(way))
        except (ConnectionRefusedError, FileNotFoundError):
            # No process listens there any more.
            path.unlink(missing_ok=True)
            return None
        except TimeoutError:
            return Process(pid=pid, answer={}, silent=True)
        except (OSError, ValueError):
            return None  # It has ended in the middle of its answer.


def send(way: socket.socket, said: dict[str, Any]) -> None:
    """Say one thing, as a line."""
    way.sendall(json.dumps(said).encode() + b"\n")


def receive(way: socket.socket) -> dict[str, Any]:
    """Hear one thing.

    Raises:
        ValueError: it is no such thing, or too much.
        OSError: the other side is gone, or too slow.
    """
    heard = b""
    while not heard.endswith(b"\n"):
        part = way.recv(65_536)
        if not part or len(heard) > _LARGEST:
            raise ValueError("what was said has no end")
        heard += part
    said = json.loads(heard)
    if not isinstance(said, dict):
        raise ValueError("what was said is no object")
    return said


def _temporary() -> Path:
    return Path(tempfile.gettempdir(), f"flykka-{os.getuid()}")
