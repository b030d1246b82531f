"""The port through which a job's components check that this process still owns the job's folders.

The owner's record is a JSON object in the folder that it owns.
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
"""Milliseconds after which the lease of an owner without a lock expires unless renewed."""

Say = Callable[[str], object]
OnLost = Callable[[OwnershipLostError], object]

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC) if os.name == "posix" else None


def now() -> float:
    """Return the seconds of a clock that is never adjusted and, if possible, continues while the machine sleeps."""
    return time.monotonic() if _CLOCK is None else time.clock_gettime(_CLOCK)


class Ownership(Protocol):
    @property
    def number(self) -> int:
        """The fencing number, higher than that of every earlier owner."""

    def start(self, on_lost: OnLost) -> None:
        """Start to renew the ownership if necessary. If the folder is lost, `on_lost` is called on any thread."""

    def check(self) -> None:
        """Raise `OwnershipLostError` if another process has taken over the folder. Cheap while the lease lasts.

        Raises:
            OSError: the record cannot be read, and the lease has expired.
        """

    def confirm(self) -> None:
        """Check like `check`, but without relying on the clock, which may stop while the machine is paused."""

    def release(self, *, unused: bool = False) -> None:
        """Give up the folder. An `unused` folder is left as it was before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Options for waiting for a folder that another process owns.

    If `patient`, wait until that process has ended; otherwise raise. `leads` returns whether this process now leads in
    its high-availability store. If it leads, and the folder's owner used the same store, take over from that owner at
    once. `say` is called once before waiting. `pause` waits for some seconds and returns True if waiting was cancelled.
    """

    say: Say
    patient: bool = False
    leads: Callable[[], bool] = lambda: False
    now: Callable[[], float] = now
    pause: Callable[[float], bool] = field(default_factory=lambda: Event().wait)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerRecord:
    """The record of an owner. `number` grows with each owner of the folder; `token` is unique.

    `lease_ms` is the lease of an owner that holds no lock, and `renewals` counts its renewals. An owner that ended
    normally has `released` the folder. An owner with a high-availability `store` owns the folder as long as it leads in
    that store.
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
    """Parse a record. Returns None if it is invalid, for example while it is being written.

    A record ends at its line end. Any further text is part of an older, longer record, if the writer was killed.
    """
    try:
        return OwnerRecord(**json.loads(data.partition(b"\n")[0]))
    except (ValueError, TypeError):
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedFolder:
    """A folder that this process should own for a job, as users know it, and the path `file` of its record.

    A sink's folder is owned in addition to `checkpoint_directory`, the job's checkpoint folder. Missing folders are
    created with `permissions` (None: by the umask), which also apply to the record.
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
        """True for the job's checkpoint folder, False for a sink's folder."""
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
        """Return the error for a start while `owner` owns the folder. None means that the owner is unknown."""
        who = str(owner) if owner is not None else "another process"
        if is_here:
            who = f"this process ({owner.pid})" if owner is not None else "this process"
        since = f" since {owner.since}" if owner is not None else ""
        other = "another checkpoint directory and output folder" if self.of_checkpoints else "another output folder"
        problem = "runs already" if self.of_checkpoints else "writes already from another checkpoint directory"
        folder = (
            f"its checkpoint directory {self.folder}" if self.of_checkpoints else f"the output folder {self.folder}"
        )
        stop = f"`flykka stop {self.job_name!r}`" if not is_here else "client.stop()"
        return OwnedByAnotherError(
            f"job {self.job_name!r} {problem}: {who} has owned {folder}{since} ({self.file}). Two processes would"
            f" publish each row twice. Stop the other one first ({stop}, or SIGTERM), or give this job another name,"
            f" or use {other}"
        )


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # The user has no name in the system, for example in a container.
        return str(os.getuid()) if hasattr(os, "getuid") else "unknown"
