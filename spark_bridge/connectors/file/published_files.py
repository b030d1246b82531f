"""The job that has published each file in a folder: the file's name tells it.

    part-<job>-<digest>-<uid>-<digest>-<subtask>-<checkpoint>-<number>-<what no other has>.<format>

A name is given with the rename that publishes the file, and stays true where the file is copied or moved to. A file of
any other name is nobody's: others have put it there, or a flykka whose names did not tell the job yet.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from flykka.actors.checkpoint_storage.file_names import in_a_name
from flykka.spark_bridge.program.sink import PublishedFiles

_NAME = re.compile(r"part-(?P<job>[A-Za-z0-9_.]*)-[0-9a-f]{8}-[A-Za-z0-9_.]*-[0-9a-f]{8}-\d+-\d+-\d+-[0-9a-f]{8}-")


def published_prefix(job_name: str) -> str:
    """Return the beginning of the names of files that a job of this name publishes."""
    return f"part-{in_a_name(job_name)}-"


def published_files(folder: str, paths: Iterable[str], job_name: str) -> PublishedFiles:
    own: list[str] = []
    others: Counter[str] = Counter()
    foreign = 0
    for path in paths:
        name = path.rsplit("/", 1)[-1]
        found = _NAME.match(name)
        if found is None:
            foreign += 1
        elif name.startswith(published_prefix(job_name)):
            own.append(path)
        else:
            others[found["job"]] += 1
    return PublishedFiles(folder=folder, own=tuple(own), by_others=tuple(sorted(others.items())), foreign=foreign)
