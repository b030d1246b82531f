"""A driver in a separate process, which reads commands from standard input and prints their results.

`python -m tests.flykka.cluster.high_availability.driver file_system FOLDER` or `... zookeeper HOSTS FOLDER`.
"""

from __future__ import annotations

import sys
from threading import Lock

from flykka.actors.checkpoint_storage.checkpoint_pointers import CheckpointPointers
from flykka.actors.errors import HighAvailabilityError
from flykka.actors.high_availability.services import HighAvailabilityServices
from flykka.messages.control.high_availability import CheckpointPointer
from flykka.messages.wire.ids import JobId, LeaderSessionId

JOB = JobId("job")
COORDINATOR = "coordinator"

_printing = Lock()


def print_line(*words: object) -> None:
    with _printing:
        print(*words, flush=True)


class Contender:
    """Prints its notifications, and recovers the job's checkpoints when it is elected."""

    def __init__(self, services: HighAvailabilityServices) -> None:
        self._services = services
        self.checkpoints: CheckpointPointers | None = None

    def granted(self, session: LeaderSessionId) -> None:
        self.checkpoints = self._services.store(session).checkpoints(JOB)
        print_line("granted", session)

    def revoked(self, session: LeaderSessionId) -> None:
        print_line("revoked", session)

    def failed(self, error: BaseException) -> None:
        print_line("failed", error)


def services_of(kind: str, *where: str) -> HighAvailabilityServices:
    match kind:
        case "file_system":
            from flykka.cluster.high_availability.file_system import FileSystemHaServices

            [folder] = where
            return FileSystemHaServices(folder)
        case _:
            from flykka.cluster.high_availability.settings import ZooKeeperSettings
            from flykka.cluster.high_availability.zookeeper import ZooKeeperHaServices

            hosts, storage, path, session_timeout = where
            return ZooKeeperHaServices(
                ZooKeeperSettings(hosts=hosts, storage_dir=storage, path=path, session_timeout_ms=int(session_timeout))
            )


def do(checkpoints: CheckpointPointers, command: str, *arguments: str) -> str:
    match command:
        case "recover":
            recovered = checkpoints.recover(COORDINATOR, 100)
            return f"recovered {[pointer.checkpoint_id for pointer in recovered.completed]}"
        case "add":
            checkpoints.add(COORDINATOR, CheckpointPointer(checkpoint_id=int(arguments[0]), path="/chk"))
            return f"added {arguments[0]}"
        case _:
            raise ValueError(command)


def main(arguments: list[str]) -> None:
    services = services_of(*arguments)
    contender = Contender(services)
    services.contend(contender)
    for line in sys.stdin:
        if line.strip() == "close":
            break
        assert contender.checkpoints is not None, "it has never led"
        if line.strip() == "session":
            number, password = services._backend._client._kazoo.client_id  # type: ignore[attr-defined]  # ZooKeeper's.
            print_line(number, password.hex())
            continue
        try:
            print_line(do(contender.checkpoints, *line.split()))
        except HighAvailabilityError as refusal:
            print_line("refused", type(refusal).__name__)
    services.close()


if __name__ == "__main__":
    main(sys.argv[1:])
