"""The paths of rows that sinks have staged. Also finds staged rows after a later owner has taken over the job.

    <staging folder of the job>/<number of the owner>/<uid>-<subtask>-of-<parallelism>/<attempt>-<batch>/

A new owner moves the folder of its predecessor to `<number>/from-<former number>/`. A checkpoint refers to rows by the
path at which they were staged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

FROM = "from-"
BEFORE_NUMBERS = "0"
"""Stands for the owners of older versions, which had no number and staged files directly in the job's folder."""

_STAGED = re.compile(
    rf"(?P<root>.*?)(?:/(?P<number>\d+)(?:/{FROM}(?P<former>\d+))?)?"
    r"(?P<below>/(?P<subtask>[A-Za-z0-9_.]*-[0-9a-f]{8}-\d+-of-\d+)(?P<batch>/[^/]+)?(?:/.*)?)",
    re.DOTALL,
)


def batch_folder(staged: str) -> str:
    """Return the batch folder of a staged file, which may be in partition folders below it."""
    match = _STAGED.fullmatch(staged)
    if match is None or match["batch"] is None:
        return staged.rsplit("/", 1)[0]
    return staged[: match.end("batch")]


def job_folder(staged: str) -> str:
    match = _STAGED.fullmatch(staged)
    return batch_folder(staged) if match is None else match["root"]


def folders_above(staged: str) -> list[str]:
    """Return the folders that contain a subtask's folder, innermost first. The last one is the job's folder."""
    match = _STAGED.fullmatch(staged)
    if match is None:
        return [staged.rsplit("/", 1)[0]]
    folders = [staged[: match.start("below")]]
    while folders[-1] != match["root"]:
        folders.append(folders[-1].rsplit("/", 1)[0])
    return folders


def current_path(
    path: str, names: Callable[[str], Iterable[str]], exists: Callable[[str], bool], owner: int | None = None
) -> str:
    """Return the current path of a staged file or folder that a checkpoint of this or another job recorded as `path`.

    `names` lists a folder. `owner` is the current owner, or None if unknown. Its own staged files have not moved, so
    its folder is searched first.
    """
    staged = _STAGED.fullmatch(path)
    if staged is None or staged["number"] == str(owner):
        return path
    former_number = staged["former"] or staged["number"] or BEFORE_NUMBERS
    below = staged["below"]
    batch_path = f"/{staged['subtask']}{staged['batch'] or ''}"
    # If another job took over and ended before its first checkpoint, its owner has moved the files again.
    numbers = (name for name in names(staged["root"]) if name.isdecimal())
    for number in numbers if owner is None else (str(owner), *numbers):
        moved_folder = f"{staged['root']}/{number}/{FROM}{former_number}"
        if exists(f"{moved_folder}{batch_path}"):
            return f"{moved_folder}{below}"
    return path
