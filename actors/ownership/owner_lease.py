"""Ownership by a lease, on file systems and object stores whose locks have no effect on other machines.

    <record>.<number>    the record of the owner with this number; the highest number counts

An owner keeps renewing its record. A newcomer takes over when the record has not changed for one lease period by the
newcomer's own clock: clocks of two machines are never compared. The newcomer creates the record with the next number.
If the store supports exclusive creation, only one newcomer can succeed. Otherwise a newcomer writes its record, waits
and reads it again: the last writer is the owner, unless a write takes longer than that wait.

An owner that was paused writes only to its own record, which has a lower number than its successor's, and checks for a
successor before it acts.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import replace
from threading import Event, Lock, Thread
from typing import Protocol

from flykka.actors.ownership.owner_lock import is_of_this_process, ownership_lost, remember
from flykka.actors.ownership.ownership import OnLost, OwnedFolder, OwnerRecord, Waiting, read_record

logger = logging.getLogger("flykka")

RENEWALS_PER_LEASE = 3
_LOOKS_PER_LEASE = 10


class LeaseFiles(Protocol):
    """The files of records in one folder, by name. All calls raise `OSError`."""

    creates_exclusively: bool
    """True if `create` cannot succeed for two processes."""

    def names(self) -> list[str]:
        """Return the names of the files. Without a folder there are none."""

    def read(self, name: str) -> bytes: ...

    def create(self, name: str, data: bytes) -> None: ...

    def write(self, name: str, data: bytes) -> None: ...

    def remove(self, name: str) -> None: ...


class OwnerLease:
    """The ownership of one folder, from its acquisition until `release`. The thread of `start` renews it.

    Raises:
        OwnedByAnotherError: another process, or another environment of this process, renews its lease.
        OSError: the files cannot be read or written.
    """

    def __init__(
        self, folder: OwnedFolder, files: LeaseFiles, waiting: Waiting, *, removes_record: bool = False
    ) -> None:
        self._folder, self._files, self._waiting = folder, files, waiting
        self._removes_record = removes_record
        self._prefix = folder.file.rsplit("/", 1)[-1] + "."
        self._guard = Lock()
        self._ended = Event()
        self._successor: OwnerRecord | None = None
        self._is_lost = False
        self._on_lost: OnLost = lambda error: None
        self._valid_until = 0.0
        record: OwnerRecord | None = None
        while record is None:
            record = self._claim(self._await_free())
        self._record = record
        remember(record)

    @property
    def number(self) -> int:
        return self._record.number

    def start(self, on_lost: OnLost) -> None:
        self._on_lost = on_lost
        Thread(target=self._renew_all_the_time, name="flykka-owner-lease", daemon=True).start()

    def check(self) -> None:
        """Raise `OwnershipLostError` if the ownership is lost. Reads the store only if the lease has expired."""
        if self._is_lost or self._waiting.now() >= self._valid_until:
            self.confirm()

    def confirm(self) -> None:
        """Renew the lease now. Raises `OwnershipLostError` if another process has taken over the folder."""
        with self._guard:
            if not self._is_lost and not self._ended.is_set():
                self._renew()
            if self._is_lost:
                raise ownership_lost(self._folder, self.number, self._successor)

    def release(self, *, unused: bool = False) -> None:
        """Release the folder, so that its next owner can start at once."""
        with self._guard:
            if self._ended.is_set():
                return
            self._ended.set()
            if self._is_lost:
                return
            name = self._name(self.number)
            if self._removes_record or (unused and self.number == 1):
                self._files.remove(name)
            else:
                self._files.write(name, replace(self._record, released=True).data())

    def _renew_all_the_time(self) -> None:
        while not self._ended.wait(self._folder.lease_ms / 1_000 / RENEWALS_PER_LEASE):
            try:
                with self._guard:
                    if not self._ended.is_set():
                        self._renew()
            except Exception as error:  # noqa: BLE001
                # Libraries of object stores raise various errors while the network is down.
                logger.warning("the lease on %s could not be renewed: %r; retrying", self._folder.folder, error)
            if self._is_lost:
                return

    def _renew(self) -> None:
        began = self._waiting.now()
        latest = self._latest()
        owner = None if latest is None else read_record(latest[1])
        # An owner may remove its record when it ends, so another owner may have come and gone.
        is_gone = latest is None and self._removes_record
        if is_gone or (latest is not None and latest[0] > self.number) or not self._is_own(owner):
            self._is_lost, self._successor = True, owner
            error = ownership_lost(self._folder, self.number, owner)
            logger.error("%s", error)
            self._on_lost(error)
            return
        self._record = self._record.renewed()
        self._files.write(self._name(self.number), self._record.data())
        self._valid_until = began + self._folder.lease_ms / 1_000

    def _is_own(self, owner: OwnerRecord | None) -> bool:
        return owner is None or owner.token == self._record.token

    def _await_free(self) -> int:
        """Wait until the folder has no owner. Returns the number of the last owner."""
        latest = self._latest()
        has_waited = False
        while latest is not None:
            number, data = latest
            owner = read_record(data)
            if owner is not None and owner.released:
                return number
            is_here = is_of_this_process(owner)
            if is_here:
                raise self._folder.refusal(owner, is_here=True)
            lease = (self._folder.lease_ms if owner is None else owner.lease_ms) / 1_000
            if not has_waited:
                who = owner or "another process"
                self._waiting.say(
                    f"waiting for up to {lease:g} s: {who} owns {self._folder.folder} but may have ended; this process"
                    " takes over unless the lease is renewed"
                )
                has_waited = True
            renewed = self._watch(latest, lease)
            if renewed == latest:
                return number
            latest = renewed
            changed = None if renewed is None else read_record(renewed[1])
            if renewed is None or (changed is not None and changed.released) or self._waiting.patient:
                continue
            raise self._folder.refusal(changed or owner)
        return 0

    def _watch(self, record: tuple[int, bytes], seconds: float) -> tuple[int, bytes] | None:
        """Watch the record for some seconds. Returns the record as soon as it changes."""
        until = self._waiting.now() + seconds
        while True:
            if self._waiting.pause(max(0.0, min(seconds / _LOOKS_PER_LEASE, until - self._waiting.now()))):
                raise self._folder.refusal(read_record(record[1]))
            latest = self._latest()
            if latest != record or self._waiting.now() >= until:
                return latest

    def _claim(self, former_number: int) -> OwnerRecord | None:
        """Create the record with the next number. Returns None if another newcomer was faster."""
        began = self._waiting.now()
        record = self._folder.record(former_number + 1)
        name = self._name(record.number)
        with suppress(FileExistsError):  # The record is read below in any case.
            self._files.create(name, record.data())
        if not self._files.creates_exclusively:
            self._waiting.pause(self._folder.lease_ms / 1_000 / RENEWALS_PER_LEASE)
        latest = self._latest()
        owner = None if latest is None else read_record(latest[1])
        if owner is None or owner.token != record.token:
            if self._waiting.patient:
                return None
            raise self._folder.refusal(owner)
        self._valid_until = began + self._folder.lease_ms / 1_000
        for number in self._numbers():
            if number < record.number:
                self._files.remove(self._name(number))
        return record

    def _latest(self) -> tuple[int, bytes] | None:
        while numbers := self._numbers():
            try:
                return numbers[-1], self._files.read(self._name(numbers[-1]))
            except FileNotFoundError:
                continue  # The file was removed between the two calls.
        return None

    def _numbers(self) -> list[int]:
        below = (name.removeprefix(self._prefix) for name in self._files.names() if name.startswith(self._prefix))
        return sorted(int(number) for number in below if number.isdecimal())

    def _name(self, number: int) -> str:
        return f"{self._prefix}{number}"
