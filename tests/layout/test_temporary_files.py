"""Temporary files are created in one module, in folders where no other user can have put a link."""

from __future__ import annotations

import re

import pytest

from tests.layout.sources import PACKAGES, ROOT

# This test reads every file of the project, so `make quick` leaves it to `make check`.
pytestmark = pytest.mark.slow

MODULE = "runtime/temporary_folders.py"
PREDICTABLE = re.compile(
    r"gettempdir|mkdtemp|mkstemp|mktemp|TMPDIR|TemporaryDirectory|TemporaryFile|createTemp|[\"'(]/(?:var/)?tmp\b"
    r"|import tempfile|from tempfile"
)
ALLOWED = {
    # This file has no name.
    "runtime/inspection/thread_stacks.py": {"from tempfile import TemporaryFile", "with TemporaryFile() as file:"},
    # This file is in the user's own cache folder.
    "flykka/cli/dry_run/first_job.py": {
        "from tempfile import NamedTemporaryFile",
        "with NamedTemporaryFile(dir=self._file.parent, delete=False) as written:",
    },
}


def test_temporary_files_are_created_in_only_one_module() -> None:
    found = [
        f"{name}: {line.strip()}"
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*"))
        if path.suffix in (".py", ".java") and not path.is_symlink()
        if (name := path.relative_to(ROOT).as_posix()) != MODULE
        for line in path.read_text(encoding="utf-8").splitlines()
        if PREDICTABLE.search(line) and line.strip() not in ALLOWED.get(name, ())
    ]

    assert found == []
