"""Where checkpoints go if nobody has said that: beside a store that outlives the driver, else a passing folder."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace

from flykka.high_availability.stores import StoreSettings, checkpoint_directory
from flykka.messages.job_graph import CheckpointingSettings, ExternalizedCheckpointRetention


class CheckpointFolder:
    """Of one environment."""

    def __init__(self) -> None:
        self._temporary: str | None = None

    def settle(self, settings: CheckpointingSettings, store: StoreSettings | None) -> CheckpointingSettings:
        """The settings, with a directory."""
        if settings.directory:
            return settings
        if store is not None:
            return replace(settings, directory=checkpoint_directory(store))
        if self._temporary is None:
            self._temporary = tempfile.mkdtemp(prefix="flykka-checkpoints-")
        if settings.retention is ExternalizedCheckpointRetention.DELETE_ON_CANCELLATION:
            # The folder goes when the environment is closed: nobody is to be told that there is something in it.
            settings = replace(settings, retention=ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS)
        return replace(settings, directory=self._temporary)

    def outlives_environment(self, directory: str) -> bool:
        """Whether what is in there stays when the environment is closed."""
        return directory != self._temporary

    def remove(self) -> None:
        """The environment is closed: what was passing goes."""
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary = None
