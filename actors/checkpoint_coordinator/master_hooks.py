"""User code that the coordinator runs in the driver when it triggers a checkpoint and when a job starts from one.

Mirrors Flink's MasterTriggerRestoreHook and MasterHooks. Every call of a hook may block: the coordinator has them run
on the system's I/O pool, one checkpoint after the other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import cached_property

from flykka.actors.errors import MasterHookError
from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason, MasterState
from flykka.messages.control.checkpoint_coordination import MasterHookFailed
from flykka.messages.wire.failure import causes
from flykka.runtime.errors import serialized


class MasterTriggerRestoreHook(ABC):
    """Prepares a system beside the job for taking or restoring checkpoints: one object per job."""

    @property
    @abstractmethod
    def identifier(self) -> str:
        """The name under which its state is stored: the same at every submission of the job, and no other hook's."""

    @abstractmethod
    def trigger_checkpoint(self, checkpoint_id: int, timestamp_ms: int) -> bytes | None:
        """Called before the sources are told of a checkpoint: what it wants back with it, None where that is nothing.

        Where it raises, the checkpoint is given up.
        """

    @abstractmethod
    def restore_checkpoint(self, checkpoint_id: int, state: bytes | None) -> None:
        """Called before a job starts from a checkpoint, with what it wanted back. Where it raises, the job fails."""

    def reset(self) -> None:  # noqa: B027 - most have nothing to do here
        """Called instead where there is no checkpoint to start from."""

    def close(self) -> None:  # noqa: B027 - most have nothing to do here
        """Called once, when the job has ended."""


class MasterHooks:
    """The hooks of one job, in the order in which they were added."""

    def __init__(self, hooks: Iterable[MasterTriggerRestoreHook] = ()) -> None:
        self._hooks: dict[str, MasterTriggerRestoreHook] = {}
        for hook in hooks:
            self.add(hook)

    def __iter__(self) -> Iterator[MasterTriggerRestoreHook]:
        return iter(tuple(self._hooks.values()))

    @property
    def identifiers(self) -> tuple[str, ...]:
        return tuple(self._hooks)

    def add(self, hook: MasterTriggerRestoreHook) -> bool:
        """Add a hook; False where there is one of that name, which then stays the only one.

        Raises:
            MasterHookError: it is no hook, or has no name.
        """
        if not isinstance(hook, MasterTriggerRestoreHook):
            raise MasterHookError(f"a master hook has to be a MasterTriggerRestoreHook, not {hook!r}")
        identifier = hook.identifier
        if not isinstance(identifier, str) or not identifier.strip():
            raise MasterHookError(
                f"the master hook {type(hook).__name__} has the identifier {identifier!r}: its state could not be found"
                " again; give it a name that no other hook of the job has"
            )
        if identifier in self._hooks:
            return False
        self._hooks[identifier] = hook
        return True

    def trigger(self, checkpoint_id: int, timestamp_ms: int) -> tuple[MasterState, ...]:
        """Run them for a checkpoint: what they want back with it. May block, and raise whatever one of them raises."""
        states = []
        for identifier, hook in self._hooks.items():
            try:
                data = hook.trigger_checkpoint(checkpoint_id, timestamp_ms)
            except Exception as raised:
                text = f"the master hook {identifier!r} failed for checkpoint {checkpoint_id}"
                raise MasterHookError(f"{text}: {type(raised).__name__}: {raised}") from raised
            if data is None:
                continue
            if not isinstance(data, bytes):
                raise MasterHookError(
                    f"the master hook {identifier!r} returned {type(data).__name__} for checkpoint {checkpoint_id};"
                    " what it wants back has to be bytes, or None"
                )
            states.append(MasterState(identifier=identifier, data=data))
        return tuple(states)

    def restore(self, checkpoint_id: int | None, states: Iterable[tuple[str, bytes | None]]) -> None:
        """Give each its state back, or, where there is no checkpoint, reset it. May block."""
        for identifier, state in states:
            hook = self._hooks[identifier]
            try:
                if checkpoint_id is None:
                    hook.reset()
                else:
                    hook.restore_checkpoint(checkpoint_id, state)
            except Exception as raised:
                target = "the beginning" if checkpoint_id is None else f"checkpoint {checkpoint_id}"
                raise MasterHookError(
                    f"the master hook {identifier!r} could not go back to {target}: {type(raised).__name__}: {raised}"
                ) from raised

    def close(self) -> None:
        """Close them all, whatever one of them raises. May block."""
        with ExitStack() as closing:
            for hook in reversed(self._hooks.values()):
                closing.callback(hook.close)


class HooksOfJob:
    """The hooks of a job, as its coordinator has them: what they are called, and how to get at them.

    The names are known since the job was accepted, and are what is decided by. The hooks themselves are the user's
    objects: they are asked for with the first call, which is on the I/O pool and never in an actor's turn.
    """

    outside_state = True

    def __init__(
        self,
        identifiers: Sequence[str] = (),
        load: Callable[[], Iterable[MasterTriggerRestoreHook]] = tuple,
    ) -> None:
        self.identifiers = tuple(identifiers)
        self._load = load

    @cached_property
    def _hooks(self) -> MasterHooks:
        # One that was added behind the acceptance of the job is not the job's.
        return MasterHooks(hook for hook in self._load() if hook.identifier in self.identifiers)

    def trigger(self, checkpoint_id: int, timestamp_ms: int) -> tuple[MasterState, ...]:
        return self._hooks.trigger(checkpoint_id, timestamp_ms)

    def restore(self, checkpoint_id: int | None, states: Iterable[tuple[str, bytes | None]]) -> None:
        self._hooks.restore(checkpoint_id, states)

    def close(self) -> None:
        if self.identifiers:
            self._hooks.close()


def hook_failed(checkpoint_id: int, error: BaseException) -> MasterHookFailed:
    """Return the failure; input and output that failed have a reason of their own (Flink's getCheckpointException)."""
    is_io = any(isinstance(each, OSError) for each in causes(error))
    reason = CheckpointDeclineReason.IO_EXCEPTION if is_io else CheckpointDeclineReason.TRIGGER_CHECKPOINT_FAILURE
    return MasterHookFailed(checkpoint_id=checkpoint_id, cause=serialized(error), reason=reason)
