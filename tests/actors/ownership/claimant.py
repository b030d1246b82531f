"""A process that tries to own the checkpoint folder of a job, and prints its owner number or the refusal.

python -m tests.actors.ownership.claimant DIRECTORY [LEASE_MS]
"""

from __future__ import annotations

import sys

from flykka.actors.errors import JobOwnershipError
from flykka.actors.ownership.folders import checkpoint_folder, own
from flykka.actors.ownership.ownership import LEASE_MS, Waiting


def main(directory: str, lease_ms: str = str(LEASE_MS)) -> int:
    try:
        ownership = own(checkpoint_folder(directory, "counts", int(lease_ms)), Waiting(say=print))
    except JobOwnershipError as refused:
        print(refused)
        return 3
    print(f"owner {ownership.number}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
