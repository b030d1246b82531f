"""The paths of rows that sinks have staged, and how to follow them to a later owner of the job.

    <staging folder of the job>/<number of the owner>/<uid>-<subtask>-of-<parallelism>/<attempt>-<batch>/

A new owner moves the folder of its predecessor to `<number>/from-<former number>/`; a checkpoint names rows by the path
at which they were staged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

FROM = "from-"
BEFORE_NUMBERS = "0"
"""The number of owners that staged directly in the job's folder, as flykka did before it numbered owners."""

_STAGED = re.compile(
    rf"(?P<root>.*?)(?:/(?P<number>\d+)(?:/{FROM}(?P<former>\d+))?)?"
    r"(?P<below>/(?P<subtask>[A-Za-z0-9_.]*-[0-9a-f]{8}-\d+-of-\d+)(?P<batch>/[^/]+)?(?:/.*)?)",
    re.DOTALL,
)


def batch_folder(staged: str) -> str:
    """Return the folder of the batch of a staged file; folders of partitions may be in it."""
    found = _STAGED.fullmatch(staged)
    if found is None or found["batch"] is None:
        return staged.rsplit("/", 1)[0]
    return staged[: found.end("batch")]


def job_folder(staged: str) -> str:
    found = _STAGED.fullmatch(staged)
    return batch_folder(staged) if found is None else found["root"]


def folders_above(staged: str) -> list[str]:
    """Return the folders above that of a subtask, up to its job's, the innermost first."""
    found = _STAGED.fullmatch(staged)
    if found is None:
        return [staged.rsplit("/", 1)[0]]
    folders = [staged[: found.start("below")]]
    while folders[-1] != found["root"]:
        folders.append(folders[-1].rsplit("/", 1)[0])
    return folders


def current_path(
    path: str, names: Callable[[str], Iterable[str]], exists: Callable[[str], bool], owner: int | None = None
) -> str:
    """Return where a staged file or folder is that a checkpoint has recorded as `path`, of this job or another.

    `names` lists a folder. What the `owner` has staged itself was not moved, and it is looked for first; None: the
    owner is not known.
    """
    staged = _STAGED.fullmatch(path)
    if staged is None or staged["number"] == str(owner):
        return path
    former = staged["former"] or staged["number"] or BEFORE_NUMBERS
    below = staged["below"]
    there = f"/{staged['subtask']}{staged['batch'] or ''}"
    # Another job may have ended before it had a checkpoint, and its owner has moved them.
    numbers = (name for name in names(staged["root"]) if name.isdecimal())
    for number in numbers if owner is None else (str(owner), *numbers):
        moved = f"{staged['root']}/{number}/{FROM}{former}"
        if exists(f"{moved}{there}"):
            return f"{moved}{below}"
    return path
