"""Options of checkpoints and savepoints."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flykka.api.configuration.option import ConfigOption, OptionGroup
from flykka.api.configuration.readers import (
    choice,
    duration,
    duration_or,
    flag,
    path,
    permissions,
    positive_duration,
    tolerable_failures,
    whole_number,
    words,
)
from flykka.messages.graph.job_graph import CheckpointingMode, ExternalizedCheckpointRetention

if TYPE_CHECKING:
    from flykka.api.job_settings import JobSettings


def _checkpointing(field: str) -> Callable[[JobSettings, Any], object]:
    return lambda settings, value: settings._set_checkpointing(**{field: value})


def _initial_delay(settings: JobSettings, value: int | str) -> None:
    is_random = isinstance(value, str)
    settings._set_checkpointing(initial_delay_ms=None if is_random else value, has_random_initial_delay=is_random)


CHECKPOINT_OPTIONS = (
    ConfigOption(
        name="checkpoint_dir",
        shape="DIR",
        read=path,
        description="where checkpoints are kept, a folder or an address such as s3://bucket/dir",
        default="a temporary folder",
        group=OptionGroup.CHECKPOINTS,
        apply=lambda settings, directory: settings.set_checkpoint_dir(directory),
        is_path=True,
    ),
    ConfigOption(
        name="checkpoint_interval",
        shape="TIME",
        read=positive_duration,
        description="take a checkpoint so often: 10s, 500ms, 5min",
        default="only at the end",
        group=OptionGroup.CHECKPOINTS,
        apply=_checkpointing("interval_ms"),
    ),
    ConfigOption(
        name="checkpoint_timeout",
        shape="TIME",
        read=positive_duration,
        description="a checkpoint that takes longer is given up",
        default="10min",
        group=OptionGroup.CHECKPOINTS,
        apply=_checkpointing("timeout_ms"),
    ),
    ConfigOption(
        name="checkpoint_min_pause",
        shape="TIME",
        read=duration,
        description="the least time between the end of a checkpoint and the begin of the next",
        default="0",
        group=OptionGroup.CHECKPOINTS,
        apply=_checkpointing("min_pause_ms"),
    ),
    ConfigOption(
        name="checkpoint_initial_delay",
        shape="TIME|random",
        read=duration_or("random"),
        description="when the first checkpoint begins, behind the start of the job and each of its restarts; random: at"
        " a time between checkpoint_min_pause and the interval",
        default="1s, or checkpoint_min_pause where that is longer",
        group=OptionGroup.CHECKPOINTS,
        apply=_initial_delay,
    ),
    ConfigOption(
        name="max_concurrent_checkpoints",
        shape="N",
        read=whole_number(1),
        description="how many may be under way at once",
        default="1",
        group=OptionGroup.CHECKPOINTS,
        apply=_checkpointing("max_concurrent"),
    ),
    ConfigOption(
        name="tolerable_checkpoint_failures",
        shape="N",
        read=whole_number(0),
        description="how many checkpoints may fail one after the other before the job fails",
        default="0",
        group=OptionGroup.CHECKPOINTS,
        apply=_checkpointing("tolerable_failures"),
    ),
    ConfigOption(
        name="tolerable_checkpoint_failures_by_cause",
        shape="CAUSE=N|unlimited,...",
        read=tolerable_failures,
        description="the same for causes that are counted by themselves, as in checkpoint-expired=3",
        default="none: they count together",
        group=OptionGroup.CHECKPOINTS,
        apply=_checkpointing("tolerable_by_reason"),
    ),
    ConfigOption(
        name="max_concurrent_checkpoint_deletions",
        shape="N",
        read=whole_number(1),
        description="how many checkpoints that are needed no more are deleted at a time",
        default="4",
        group=OptionGroup.CHECKPOINTS,
        apply=_checkpointing("max_concurrent_deletions"),
    ),
    ConfigOption(
        name="retained_checkpoints",
        shape="N",
        read=whole_number(1),
        description="how many of the completed checkpoints are kept while the job runs",
        default="1",
        group=OptionGroup.CHECKPOINTS,
        apply=_checkpointing("retained"),
    ),
    ConfigOption(
        name="checkpoint_fsync",
        shape="BOOL",
        read=flag,
        description="sync the files of checkpoints and of file sinks to the disk before they count, so that they"
        " survive a loss of power",
        default="true",
        group=OptionGroup.CHECKPOINTS,
        apply=_checkpointing("fsync"),
    ),
    ConfigOption(
        name="checkpointing_mode",
        shape=words(CheckpointingMode),
        read=choice(CheckpointingMode),
        description="what holds for every row after a failure",
        default="exactly-once",
        group=OptionGroup.CHECKPOINTS,
        apply=_checkpointing("mode"),
    ),
    ConfigOption(
        name="unaligned_checkpoints",
        shape="BOOL",
        read=flag,
        description="let barriers overtake the batches that wait",
        default="false",
        group=OptionGroup.CHECKPOINTS,
        apply=_checkpointing("unaligned"),
    ),
    ConfigOption(
        name="aligned_checkpoint_timeout",
        shape="TIME",
        read=duration,
        description="unaligned checkpoints begin aligned for so long",
        default="0",
        group=OptionGroup.CHECKPOINTS,
        apply=_checkpointing("aligned_timeout_ms"),
    ),
    ConfigOption(
        name="retention",
        shape=words(ExternalizedCheckpointRetention),
        read=choice(ExternalizedCheckpointRetention),
        description="which jobs keep their last checkpoint, besides those that are stopped:"
        " no-externalized-checkpoints: none; delete-on-cancellation: those that fail;"
        " retain-on-cancellation: those that are cancelled too",
        default="retain-on-cancellation",
        group=OptionGroup.CHECKPOINTS,
        apply=lambda settings, retention: settings.set_externalized_checkpoint_retention(retention),
    ),
    ConfigOption(
        name="checkpoint_permissions",
        shape="OCTAL",
        read=permissions,
        description="the permissions of new folders of checkpoints, savepoints and archives on a file system of this"
        " machine, whatever the umask; files in them have the same without the right to execute: 0750 lets the group"
        " read",
        default="0700: of the user alone",
        group=OptionGroup.CHECKPOINTS,
        apply=_checkpointing("permissions"),
    ),
    ConfigOption(
        name="savepoint_dir",
        shape="DIR",
        read=path,
        description="where savepoints go, a folder or an address; with it Ctrl-C stops with a savepoint there",
        default="none: Ctrl-C stops with a checkpoint",
        group=OptionGroup.CHECKPOINTS,
        apply=lambda settings, directory: settings.set_default_savepoint_directory(directory),
        is_path=True,
    ),
    ConfigOption(
        name="archive_dir",
        shape="DIR",
        read=path,
        description="where a job that has ended leaves what `flykka history` shows",
        default="archives/ in a checkpoint folder that was named",
        group=OptionGroup.CHECKPOINTS,
        apply=lambda settings, directory: settings.set_archive_dir(directory),
        is_path=True,
    ),
)
