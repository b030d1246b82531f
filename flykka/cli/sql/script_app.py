"""A SQL script as an app: runs its statements and their jobs one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flykka.api.environment import StreamExecutionEnvironment
from flykka.cli.run.app import App
from flykka.client.job_client import JobClient
from flykka.errors import SqlError
from flykka.spark_bridge.connectors.console import ConsoleSink
from flykka.spark_bridge.sql.script import ScriptStatement, statements

if TYPE_CHECKING:
    import pandas as pd


def printed(result: pd.DataFrame | str) -> str:
    if isinstance(result, str):
        return result
    if result.empty:
        return "none"
    columns = [str(name) for name in result.columns]
    rows = [columns, *([str(value) for value in row] for row in result.itertuples(index=False))]
    widths = [max(len(row[place]) for row in rows) for place in range(len(columns))]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


_ROWS = 10_000


class ScriptApp(App):
    """A script of SQL statements. `path` is its name in errors."""

    needs_jobs = False

    def __init__(self, path: str, text: str) -> None:
        super().__init__(path)
        self._text = text

    def run(self) -> None:
        env = StreamExecutionEnvironment.get_execution_environment()
        for statement in statements(self._text):
            self._run(env, statement)

    def explained(self, raised: BaseException, *, whole: bool = False) -> str:
        """Add the position in the file to a SQL error."""
        if isinstance(raised, SqlError) and not whole:
            return f"{self.path}: {raised}"
        return super().explained(raised, whole=whole)

    def _run(self, env: StreamExecutionEnvironment, statement: ScriptStatement) -> None:
        query = env.statement_executor.query(statement)
        if query is not None:
            env.statement_executor.execute_query(query, ConsoleSink(limit=_ROWS, truncate=False)).wait()
            return
        result = env.statement_executor.execute(statement)
        if isinstance(result, JobClient):
            result.wait()
        elif result is not None:
            print(printed(result), flush=True)
