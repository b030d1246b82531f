"""User code that the coordinator runs in the driver when a checkpoint is triggered or restored.

Follows Flink's MasterTriggerRestoreHook and MasterHooks. Any call of a hook may block, so the coordinator runs hooks on
the system's I/O pool, for one checkpoint at a time.
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
    """Prepares an external system when a checkpoint of the job is triggered or restored. Each job has its own hook."""

    @property
    @abstractmethod
    def identifier(self) -> str:
        """The name under which the hook's state is stored: unique in the job and stable across its submissions."""

    @abstractmethod
    def trigger_checkpoint(self, checkpoint_id: int, timestamp_ms: int) -> bytes | None:
        """Return state to store in the checkpoint, or None. Called before the sources are triggered.

        If this method raises, the checkpoint is aborted.
        """

    @abstractmethod
    def restore_checkpoint(self, checkpoint_id: int, state: bytes | None) -> None:
        """Restore the hook from its state in this checkpoint, before the job starts. If it raises, the job fails."""

    def reset(self) -> None:  # noqa: B027 - most have nothing to do here
        """Reset the hook. Called instead of `restore_checkpoint` if the job starts without a checkpoint."""

    def close(self) -> None:  # noqa: B027 - most have nothing to do here
        """Close the hook. Called once, when the job has ended."""


class MasterHooks:
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
        """Add a hook. Keeps an existing hook of this name, and then returns False.

        Raises:
            MasterHookError: the object is not a hook, or has no name.
        """
        if not isinstance(hook, MasterTriggerRestoreHook):
            raise MasterHookError(f"a master hook has to be a MasterTriggerRestoreHook, not {hook!r}")
        identifier = hook.identifier
        if not isinstance(identifier, str) or not identifier.strip():
            raise MasterHookError(
                f"the master hook {type(hook).__name__} has the identifier {identifier!r}, by which its state could"
                " not be found again: give it a name that no other hook of the job has"
            )
        if identifier in self._hooks:
            return False
        self._hooks[identifier] = hook
        return True

    def trigger(self, checkpoint_id: int, timestamp_ms: int) -> tuple[MasterState, ...]:
        """Call all hooks and return their states. May block."""
        states = []
        for identifier, hook in self._hooks.items():
            try:
                data = hook.trigger_checkpoint(checkpoint_id, timestamp_ms)
            except Exception as error:
                text = f"the master hook {identifier!r} failed for checkpoint {checkpoint_id}"
                raise MasterHookError(f"{text}: {type(error).__name__}: {error}") from error
            if data is None:
                continue
            if not isinstance(data, bytes):
                raise MasterHookError(
                    f"the master hook {identifier!r} returned {type(data).__name__} for checkpoint {checkpoint_id};"
                    " it has to return bytes, or None"
                )
            states.append(MasterState(identifier=identifier, data=data))
        return tuple(states)

    def restore(self, checkpoint_id: int | None, states: Iterable[tuple[str, bytes | None]]) -> None:
        """Restore each hook from its state, or reset it if there is no checkpoint. May block."""
        for identifier, state in states:
            hook = self._hooks[identifier]
            try:
                if checkpoint_id is None:
                    hook.reset()
                else:
                    hook.restore_checkpoint(checkpoint_id, state)
            except Exception as error:
                target = "the beginning" if checkpoint_id is None else f"checkpoint {checkpoint_id}"
                text = f"the master hook {identifier!r} could not be restored to {target}"
                raise MasterHookError(f"{text}: {type(error).__name__}: {error}") from error

    def close(self) -> None:
        """Close all hooks, even if a hook raises. May block."""
        with ExitStack() as closing:
            for hook in reversed(self._hooks.values()):
                closing.callback(hook.close)


class HooksOfJob:
    """The hooks of a job. The identifiers are known at once; the hook objects are loaded on first use.

    The identifiers are fixed when the job is accepted, and the coordinator's decisions depend on them. The hooks are
    the user's objects: they are loaded on the first call, which runs on the I/O pool and never in an actor's turn.
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
        # A hook that was added after the job was accepted does not belong to it.
        return MasterHooks(hook for hook in self._load() if hook.identifier in self.identifiers)

    def trigger(self, checkpoint_id: int, timestamp_ms: int) -> tuple[MasterState, ...]:
        return self._hooks.trigger(checkpoint_id, timestamp_ms)

    def restore(self, checkpoint_id: int | None, states: Iterable[tuple[str, bytes | None]]) -> None:
        self._hooks.restore(checkpoint_id, states)

    def close(self) -> None:
        if self.identifiers:
            self._hooks.close()


def hook_failed(checkpoint_id: int, error: BaseException) -> MasterHookFailed:
    """Return the failure event. An I/O error has its own failure reason, as in Flink's getCheckpointException."""
    is_io = any(isinstance(each, OSError) for each in causes(error))
    reason = CheckpointDeclineReason.IO_EXCEPTION if is_io else CheckpointDeclineReason.TRIGGER_CHECKPOINT_FAILURE
    return MasterHookFailed(checkpoint_id=checkpoint_id, cause=serialized(error), reason=reason)
