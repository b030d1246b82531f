"""Objects of the user that run in the driver beside every job of an environment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from flykka.actors.errors import FailureEnricherError, MasterHookError
from flykka.errors import ProgramError

if TYPE_CHECKING:
    from flykka.actors.checkpoint_coordinator.master_hooks import MasterTriggerRestoreHook
    from flykka.actors.failure_enrichers import FailureEnricher
    from flykka.spark_bridge.operators.code_registry import CodeRegistry


class UserHooks:
    """Setters that return the environment."""

    _registry: CodeRegistry

    def add_master_hook(self, hook: MasterTriggerRestoreHook) -> Self:
        """Have `hook` run in the driver before each checkpoint of a job, and before a job starts from one.

        What it wants back is kept in the checkpoint under its identifier. It is called for every job that is executed
        from here on.

        Raises:
            ProgramError: it is no hook, has no identifier, or another one has it.
        """
        try:
            added = self._registry.master_hooks.add(hook)
        except MasterHookError as refusal:
            raise ProgramError(str(refusal)) from None
        if not added:
            raise ProgramError(f"there is a master hook {hook.identifier!r} already; give each its own name")
        return self

    def add_failure_enricher(self, enricher: FailureEnricher | str) -> Self:
        """Have `enricher` label the failures of jobs that are executed from here on, or the one of that name.

        A name is that of an entry point of the group `flykka.failure_enrichers`. The labels are in the exception
        history. Enrichers run in the driver, off the actors: what one of them raises is logged, and hurts no job.

        Raises:
            ProgramError: it is no enricher, declares no keys or keys of another enricher, or cannot be loaded.
        """
        try:
            self._registry.failure_enrichers.add(enricher)
        except FailureEnricherError as refusal:
            raise ProgramError(str(refusal)) from None
        return self
