"""Selects the default checkpoint folder: next to a store that outlives the driver, otherwise a temporary folder."""

from __future__ import annotations

from dataclasses import replace

from flykka.cluster.high_availability.stores import StoreSettings, checkpoint_directory
from flykka.errors import ConfigurationError
from flykka.messages.graph.job_graph import CheckpointingSettings, ExternalizedCheckpointRetention
from flykka.runtime.temporary_folders import TemporaryFolder

ARCHIVES = "archives"

DATASETS = "datasets"


class _SharedFolder:
    """A temporary folder that is deleted when the last environment releases it."""

    def __init__(self) -> None:
        try:
            self._folder = TemporaryFolder("checkpoints")
        except OSError as refused:
            raise ConfigurationError(f"a temporary folder for checkpoints cannot be created: {refused}") from refused
        self.path = str(self._folder.path)
        self._users = 1

    def join(self) -> None:
        self._users += 1

    def leave(self) -> None:
        self._users -= 1
        if not self._users:
            self._folder.remove()


class CheckpointFolder:
    """The checkpoint folder of an environment, possibly shared with an earlier environment that it replaces."""

    def __init__(self) -> None:
        self._temporary: _SharedFolder | None = None

    def resolve(
        self, settings: CheckpointingSettings, store: StoreSettings | None, *, is_retention_set: bool = False
    ) -> CheckpointingSettings:
        """Fill in the checkpoint directory, and the archive directory unless the checkpoint directory is temporary."""
        directory = settings.directory or (checkpoint_directory(store) if store is not None else "")
        if directory:
            archives = settings.archive_directory or f"{directory.rstrip('/')}/{ARCHIVES}"
            return replace(settings, directory=directory, archive_directory=archives)
        if self._temporary is None:
            self._temporary = _SharedFolder()
        if not (is_retention_set and settings.retention is ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION):
            # The temporary folder is deleted when the environment is closed, so no message should refer to a
            # checkpoint in it.
            settings = replace(settings, retention=ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS)
        return replace(settings, directory=self._temporary.path)

    def datasets(self, settings: CheckpointingSettings, store: StoreSettings | None) -> str:
        """Return the folder for cached streams, in the checkpoint directory because executors can reach that."""
        return f"{self.resolve(settings, store).directory.rstrip('/')}/{DATASETS}"

    def share(self, earlier: CheckpointFolder) -> None:
        """Share the temporary folder of an earlier environment, unless this environment has a folder already."""
        if self._temporary is None and earlier._temporary is not None:
            self._temporary = earlier._temporary
            self._temporary.join()

    def outlives_environment(self, directory: str) -> bool:
        return self._temporary is None or directory != self._temporary.path

    def remove(self) -> None:
        if self._temporary is not None:
            self._temporary.leave()
            self._temporary = None
