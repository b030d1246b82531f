"""Waiting in virtual time."""

from __future__ import annotations

from collections.abc import Callable

from flykka.actors.ownership.folders import checkpoint_folder
from flykka.actors.ownership.ownership import LEASE_MS, OwnedFolder, Waiting


def counts_in(directory: object, lease_ms: int = LEASE_MS) -> OwnedFolder:
    return checkpoint_folder(str(directory), "counts", lease_ms, permissions=0o755)


class VirtualClock:
    """The clock of one machine; a pause advances it at once. `each_pause` is called in every pause, so that other
    processes can run.
    """

    def __init__(self, seconds: float = 0.0, each_pause: Callable[[], object] = lambda: None) -> None:
        self.seconds = seconds
        self.each_pause = each_pause
        self.said: list[str] = []

    def pause(self, seconds: float) -> bool:
        self.seconds += seconds
        self.each_pause()
        return False

    def waiting(self, *, patient: bool = False) -> Waiting:
        return Waiting(say=self.said.append, patient=patient, now=lambda: self.seconds, pause=self.pause)
