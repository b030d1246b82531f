"""The port of those that act for a job: whether this process still owns the folders of the job.

The record of the owner lies in the folder that it owns: one object of JSON.
"""

from __future__ import annotations

import getpass
import json
import os
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from threading import Event
from typing import Protocol, Self
from uuid import uuid4

from flykka.actors.errors import OwnedByAnotherError, OwnershipLostError

LEASE_MS = 15_000
"""Milliseconds for which an owner without a lock is believed after its last renewal."""

Say = Callable[[str], object]
OnLost = Callable[[OwnershipLostError], object]

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC) if os.name == "posix" else None


def now() -> float:
    """Seconds on a clock that is never set, and that runs on while the machine sleeps if there is one."""
    return time.monotonic() if _CLOCK is None else time.clock_gettime(_CLOCK)


class Ownership(Protocol):
    @property
    def number(self) -> int:
        """The fencing number: higher than that of every owner before."""

    def start(self, on_lost: OnLost) -> None:
        """Keep the folder from now on, if that takes work; `on_lost` is called on any thread when it is lost."""

    def check(self) -> None:
        """Raise `OwnershipLostError` if another process has taken the folder over; cheap while that cannot be.

        Raises:
            OSError: the record cannot be read, and the lease has run out.
        """

    def confirm(self) -> None:
        """Do the same, and never rely on the clock: a machine that was paused does not know for how long."""

    def release(self, *, unused: bool = False) -> None:
        """Give the folder up in order; an `unused` one is left as it was found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """The way to wait for a folder that another process owns.

    One that is `patient` waits until that process has ended; others are refused. One that `leads` in its store of high
    availability takes over at once from an owner of that store, which leads no more. `say` is called before it waits.
    `pause` waits for some seconds, or until the waiting is given up, and returns True in that case.
    """

    say: Say
    patient: bool = False
    leads: Callable[[], bool] = lambda: False
    now: Callable[[], float] = now
    pause: Callable[[float], bool] = field(default_factory=lambda: Event().wait)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerRecord:
    """An owner. `number` grows with each owner of the folder, and `token` is given to no other.

    `lease_ms` is how long an owner that holds no lock is believed after its last renewal, and `renewals` counts these.
    An owner that has ended in order has `released` the folder. One with a `store` of high availability owns it for as
    long as it leads there.
    """

    number: int
    job_name: str
    host: str
    pid: int
    user: str
    since: str
    token: str
    lease_ms: int
    checkpoint_directory: str = ""
    store: str = ""
    renewals: int = 0
    released: bool = False

    def data(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"

    def renewed(self) -> Self:
        return replace(self, renewals=self.renewals + 1)

    def __str__(self) -> str:
        return f"process {self.pid} of user {self.user} on host {self.host}"


def read_record(data: bytes) -> OwnerRecord | None:
    """Read a record; None for what is none, such as a file that is being written.

    It ends with its line: what follows is left of a longer record, if the process that wrote this one was killed.
    """
    try:
        return OwnerRecord(**json.loads(data.partition(b"\n")[0]))
    except (ValueError, TypeError):
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedFolder:
    """A folder to be owned by this process for a job: the folder as users know it, and the path of the record.

    `file` is that path. The folder of a sink is owned beside the checkpoint folder of its job, `checkpoint_directory`.
    Folders that do not exist are made with `permissions`, and the record has the same; None: by the umask.
    """

    folder: str
    file: str
    job_name: str
    checkpoint_directory: str
    lease_ms: int
    store: str = ""
    permissions: int | None = None

    @property
    def of_checkpoints(self) -> bool:
        """True for the checkpoint folder of the job, False for the folder of a sink."""
        return self.folder == self.checkpoint_directory

    def record(self, number: int) -> OwnerRecord:
        return OwnerRecord(
            number=number,
            job_name=self.job_name,
            host=platform.node(),
            pid=os.getpid(),
            user=_user(),
            since=datetime.now().astimezone().isoformat(" ", "seconds"),
            token=uuid4().hex,
            lease_ms=self.lease_ms,
            checkpoint_directory=self.checkpoint_directory,
            store=self.store,
        )

    def refusal(self, owner: OwnerRecord | None, *, is_here: bool = False) -> OwnedByAnotherError:
        """The error for a start while `owner` has the folder; it may be a process that cannot be named."""
        who = str(owner) if owner is not None else "another process"
        if is_here:
            who = f"this process ({owner.pid})" if owner is not None else "this process"
        since = f" since {owner.since}" if owner is not None else ""
        other = "another checkpoint directory and output folder" if self.of_checkpoints else "another output folder"
        what = "runs already" if self.of_checkpoints else "writes already from another checkpoint directory"
        folder = (
            f"its checkpoint directory {self.folder}" if self.of_checkpoints else f"the output folder {self.folder}"
        )
        stop = f"`flykka stop {self.job_name!r}`" if not is_here else "client.stop()"
        return OwnedByAnotherError(
            f"job {self.job_name!r} {what}: {who} has owned {folder}{since} ({self.file}). Two of them would publish"
            f" each row twice. Stop that one first ({stop}, or SIGTERM), or give this one another name, or {other}"
        )


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A user that the system has no name for, as in a container.
        return str(os.getuid()) if hasattr(os, "getuid") else "unknown"
