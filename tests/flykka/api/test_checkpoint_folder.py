"""The default checkpoint folder, and its lifetime."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from flykka.api.checkpoint_folder import CheckpointFolder
from flykka.cluster.high_availability.stores import FolderSettings, StoreSettings
from flykka.messages.graph.job_graph import CheckpointingSettings


def directory(folder: CheckpointFolder) -> Path:
    return Path(folder.resolve(CheckpointingSettings(directory=""), None).directory)


def test_a_temporary_folder_that_two_environments_share_goes_with_the_last_of_them() -> None:
    earlier, later = CheckpointFolder(), CheckpointFolder()
    shared = directory(earlier)
    later.share(earlier)

    earlier.remove()
    is_there, taken = shared.is_dir(), directory(later)
    later.remove()

    assert is_there
    assert taken == shared
    assert not shared.exists()


def test_a_folder_is_not_given_up_for_that_of_an_earlier_environment() -> None:
    earlier, later = CheckpointFolder(), CheckpointFolder()
    first, own = directory(earlier), directory(later)

    later.share(earlier)
    kept = directory(later)
    later.remove()
    is_there = first.is_dir()
    earlier.remove()

    assert kept == own
    assert is_there


def test_archives_lie_in_a_checkpoint_folder_that_stays_or_where_they_are_said_to(tmp_path: Path) -> None:
    def archives(settings: CheckpointingSettings, store: StoreSettings | None = None) -> str | None:
        folder = CheckpointFolder()
        resolved = folder.resolve(settings, store).archive_directory
        folder.remove()
        return resolved

    unnamed, named = CheckpointingSettings(directory=""), CheckpointingSettings(directory="s3://bucket/c/")

    assert archives(unnamed) is None
    assert archives(named) == "s3://bucket/c/archives"
    assert archives(unnamed, FolderSettings(directory=str(tmp_path))) == f"{tmp_path}/checkpoints/archives"
    assert (
        archives(replace(named, archive_directory="/a")) == archives(replace(unnamed, archive_directory="/a")) == "/a"
    )
