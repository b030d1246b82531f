"""StatementSet: several INSERTs that run as one job, as in Flink."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from flykka.errors import ProgramError
from flykka.spark_bridge.sql.script import ScriptStatement

if TYPE_CHECKING:
    from flykka.api.table.statement_executor import StatementExecutor
    from flykka.client.job_client import JobClient
    from flykka.spark_bridge.sql.commands import Insert
    from flykka.spark_bridge.sql.parsing import ParsedStatement


class StatementSet:
    """A set of INSERTs that are executed as one job, in which each source is read once.

    Created by `create_statement_set`. After `execute` the set is empty, and can be filled again.
    """

    def __init__(self, executor: StatementExecutor) -> None:
        self._executor = executor
        self._inserts: list[tuple[ParsedStatement, Insert]] = []

    def add_insert_sql(self, statement: str) -> Self:
        """Add an INSERT, and return the set.

        Raises:
            SqlError: the statement cannot be parsed, or is not an INSERT.
        """
        self._inserts.append(self._executor.parsed_insert(ScriptStatement.whole(statement)))
        return self

    def explain(self) -> str:
        """Describe the job's operators and their state, without changing the program.

        Raises:
            SqlError: an INSERT cannot run.
            ProgramError: the set is empty.
        """
        return self._executor.explain_inserts(self._checked())

    def execute(self) -> JobClient:
        """Start the job, and empty the set. Raises the errors of `explain` and `execute_async`."""
        client = self._executor.execute_inserts(self._checked())
        self._inserts = []
        return client

    def _checked(self) -> tuple[tuple[ParsedStatement, Insert], ...]:
        if not self._inserts:
            raise ProgramError("the statement set is empty: add_insert_sql('INSERT INTO ...') adds to it")
        return tuple(self._inserts)
