"""The default checkpoint folder, and its lifetime."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from flykka.api.checkpoint_folder import CheckpointFolder
from flykka.cluster.high_availability.stores import FolderSettings, StoreSettings
from flykka.messages.graph.job_graph import CheckpointingSettings


def directory(folder: CheckpointFolder) -> Path:
    return Path(folder.resolve(CheckpointingSettings(directory=""), None).directory)


def test_a_shared_temporary_folder_is_deleted_with_its_last_environment() -> None:
    earlier, later = CheckpointFolder(), CheckpointFolder()
    shared = directory(earlier)
    later.share(earlier)

    earlier.remove()
    is_there, taken = shared.is_dir(), directory(later)
    later.remove()

    assert is_there
    assert taken == shared
    assert not shared.exists()


def test_a_new_folder_does_not_reuse_that_of_an_earlier_environment() -> None:
    earlier, later = CheckpointFolder(), CheckpointFolder()
    first, own = directory(earlier), directory(later)

    later.share(earlier)
    kept = directory(later)
    later.remove()
    is_there = first.is_dir()
    earlier.remove()

    assert kept == own
    assert is_there


def test_archives_are_in_a_permanent_checkpoint_folder_or_the_configured_folder(tmp_path: Path) -> None:
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
