"""The sinks of one job: checks before it runs, and the writers of each attempt."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError

from flykka.spark_bridge.connectors.staging import StagingOwner
from flykka.spark_bridge.errors import SinkError
from flykka.spark_bridge.operators.sink_code import SinkCode
from flykka.spark_bridge.program.sink import Sink

if TYPE_CHECKING:
    from flykka.messages.graph.job_graph import JobGraph, JobVertex, Operator
    from flykka.messages.tasks.task import TaskDeploymentDescriptor
    from flykka.messages.wire.ids import JobId
    from flykka.spark_bridge.operators.code_registry import CodeRegistry
    from flykka.spark_bridge.program.sink import PublishedFiles
    from flykka.spark_bridge.rows.filesystem import FileSystem


def check_sinks(job_graph: JobGraph, registry: CodeRegistry, filesystem: FileSystem) -> None:
    """Raise `SinkError`, which names the operators, if a sink cannot run as configured or write to its target."""
    targets: dict[str, tuple[str, Sink]] = {}
    for vertex in job_graph.vertices:
        for operator, sink in _sinks(vertex, registry):
            operator_name = f"operator {registry.describe(operator.ref.uid)}"
            limit = sink.parallelism_limit
            if limit is not None and vertex.parallelism > limit:
                raise SinkError(f"{operator_name} runs in {limit} subtask at most, not in {vertex.parallelism}: {sink}")
            target = _target(sink, filesystem, operator_name)
            if target is None:
                continue
            other, before = targets.setdefault(target, (operator_name, sink))
            if before.read_as != sink.read_as:
                raise SinkError(
                    f"{other} and {operator_name} both write to {target}, as {before.read_as} and as {sink.read_as}:"
                    " readers expect one of them; give each a path of its own"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkFolders:
    """`shows_only` is true if no sink stores rows."""

    published: tuple[PublishedFiles, ...]
    shows_only: bool


def sink_folders(job_graph: JobGraph, registry: CodeRegistry, filesystem: FileSystem) -> SinkFolders:
    """List the folders to which the sinks of a job write, each once. May block. Raises `SinkError`, which names the
    operator.
    """
    by_folder: dict[str, PublishedFiles] = {}
    shows_only = True
    for vertex in job_graph.vertices:
        for operator, sink in _sinks(vertex, registry):
            if sink.is_internal:
                continue
            shows_only = shows_only and not sink.publishes_per_checkpoint
            with _named_failure(sink, f"operator {registry.describe(operator.ref.uid)}"):
                published = sink.published_files(filesystem, job_graph.name)
            if published is not None:
                by_folder.setdefault(published.folder, published)
    return SinkFolders(published=tuple(by_folder.values()), shows_only=shows_only)


def delete_published(
    job_graph: JobGraph, registry: CodeRegistry, filesystem: FileSystem, folders: Collection[str]
) -> None:
    for vertex in job_graph.vertices:
        for _, sink in _sinks(vertex, registry):
            published = sink.published_files(filesystem, job_graph.name)
            if published is not None and published.folder in folders:
                sink.unpublish(filesystem, published)


def delete_staged(job_graph: JobGraph, registry: CodeRegistry, filesystem: FileSystem, job_id: JobId) -> None:
    """Delete files that another job of this checkpoint directory has staged for the sinks of this job. May block."""
    for vertex in job_graph.vertices:
        for _, sink in _sinks(vertex, registry):
            folder = sink.staging_folder(job_id, job_graph.checkpointing.directory)
            if folder is not None:
                filesystem.delete(folder)
                filesystem.delete_if_empty(folder.rsplit("/", 1)[0])


def take_over_staged(
    job_graph: JobGraph, registry: CodeRegistry, filesystem: FileSystem, job_id: JobId, owner_number: int
) -> None:
    """Move rows staged by former owners of this job, or of another job of the same program. May block.

    Call this before the checkpoint to continue from is chosen. Afterwards a former owner that was paused cannot publish
    rows of a checkpoint that it completes later. See `StagingOwner`.

    Raises:
        OwnershipLostError: there is a later owner than this process.
        SinkError: a folder cannot be moved.
    """
    for vertex in job_graph.vertices:
        for _, sink in _sinks(vertex, registry):
            folder = sink.staging_folder(job_id, job_graph.checkpointing.directory)
            if folder is not None:
                root = filesystem.qualified(folder)
                StagingOwner(filesystem=filesystem, root=root, number=owner_number).take_over()


def staging_folders(descriptor: TaskDeploymentDescriptor, registry: CodeRegistry) -> set[str]:
    folders = (
        sink.staging_folder(descriptor.job_id, descriptor.checkpoint_directory)
        for _, sink in _sinks(descriptor.vertex, registry)
    )
    return {folder for folder in folders if folder is not None}


def staging_roots(job_graph: JobGraph, registry: CodeRegistry) -> list[str]:
    """Return the sorted folders that other jobs may share, below which sinks with user-visible output stage rows."""
    directory = job_graph.checkpointing.directory
    folders = (
        sink.staging_folder(job_graph.job_id, directory)
        for vertex in job_graph.vertices
        for _, sink in _sinks(vertex, registry)
        if not sink.is_internal
    )
    below = f"{directory.rstrip('/')}/"
    return sorted({folder.rsplit("/", 1)[0] for folder in folders if folder and not folder.startswith(below)})


def _sinks(vertex: JobVertex, registry: CodeRegistry) -> Iterator[tuple[Operator, Sink]]:
    for operator in vertex.operators:
        code = registry.resolve(operator.ref)
        if isinstance(code, SinkCode):
            yield operator, code.sink


def _target(sink: Sink, filesystem: FileSystem, operator_name: str) -> str | None:
    with _named_failure(sink, operator_name):
        sink.check_target(filesystem)
        return sink.target(filesystem)


@contextmanager
def _named_failure(sink: Sink, operator_name: str) -> Iterator[None]:
    try:
        yield
    except SinkError as refused:
        raise SinkError(f"{operator_name}: {refused}") from refused
    except Py4JJavaError as refused:
        raise SinkError(f"{operator_name}, {sink}: {refused.java_exception.getMessage()}") from refused
