"""Random event-time windows, each with the grouping by window that computes the expected result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from benchmarks.differential.expressions import Column, aggregate
from benchmarks.differential.rows import Rows, Verbs, ddl, listed

_WINDOWS = (
    ("TumblingEventTimeWindows.of('15min')", "F.window({}, '15 minutes')"),
    ("SlidingEventTimeWindows.of('20min', '10min')", "F.window({}, '20 minutes', '10 minutes')"),
    ("EventTimeSessionWindows.with_gap('12min')", "F.session_window({}, '12 minutes')"),
)
_ONE_EACH = "F.expr('array_repeat(1L, CAST(count(*) AS INT))')"


class WindowVerbs(Verbs):
    def _window_verbs(self, rows: Rows) -> list[Callable[[Rows], Rows]]:
        """Return the window methods for rows that are not themselves results of windows."""
        verbs: list[Callable[[Rows], Rows]] = [self._aggregate_windows, self._call_windows, self._apply_windows]
        return [*verbs, self._fold_windows, self._reduce_windows]

    def _counted(self, rows: Rows, verb: str, keys: list[Column], number: Column, truth: str) -> Rows:
        names, columns = tuple(key.name for key in keys), (*keys, number)
        stream = f".key_by({listed(keys)}).{verb}({names!r}, {number.name!r}), {ddl(columns)!r})"
        return rows.then(stream, truth).kept(columns)

    def _aggregate_windows(self, rows: Rows) -> Rows:
        choices = self._choices
        assigner, window = choices.of(_WINDOWS)
        text, type_ = aggregate(choices, rows.columns, plain=True)
        keys = self._keys(rows) if choices.percent(70) else []
        keyed = f".key_by({listed(keys)}).window({assigner})" if keys else f".window_all({assigner})"
        number = Column(self._name(), type_)
        made = f"F.expr({text!r}).alias({number.name!r})"
        return self._of_windows(rows, f"{keyed}.aggregate({made})", window, keys, made, number)

    def _call_windows(self, rows: Rows) -> Rows:
        """Call a function with all rows of a window, possibly with a trigger or an evictor."""
        settings, aggregated, then = self._choices.of(
            (
                ("", "F.count('*')", ""),
                (".evictor(CountEvictor.of(1))", "F.lit(1).cast('bigint')", ""),
                (".trigger(PurgingTrigger.of(CountTrigger.of(1)))", _ONE_EACH, ".withColumn({0}, F.explode({0}))"),
            )
        )
        keys, number = self._keys(rows), Column(self._name(), "bigint")
        assigner, window = self._choices.of(_WINDOWS)
        counted = self._counted(rows, f"window({assigner}){settings}.process(CountWindow", keys, number, "")
        made = self._of_functions(rows, "", window, keys, f"{aggregated}.alias({number.name!r})", number)
        exploded = then.format(repr(number.name))
        return replace(counted, truth=f"{made.truth}.drop('window_start', 'window_end'){exploded}")

    def _fold_windows(self, rows: Rows) -> Rows:
        """Use an AggregateFunction, whose results do not contain the keys."""
        keys, number = self._keys(rows), Column(self._name(), "bigint")
        assigner, window = self._choices.of(_WINDOWS)
        function = f"aggregate(RowCount({number.name!r}), accumulator_type='bigint', output={ddl([number])!r})"
        stream = f".key_by({listed(keys)}).window({assigner}).{function}"
        made = self._of_functions(rows, "", window, keys, f"F.count('*').alias({number.name!r})", number)
        return rows.then(stream, f"{made.truth.removeprefix(rows.truth)}.select({str(number)!r})").kept((number,))

    def _reduce_windows(self, rows: Rows) -> Rows:
        if rows.own is None or len(rows.columns) == 1:
            return rows
        keys = self._keys(rows.kept([column for column in rows.columns if column != rows.own]))
        assigner, window = self._choices.of(_WINDOWS)
        function = f"lambda a, b: max(a, b, key=lambda row: row[{rows.own.name!r}])"
        selected = listed((Column("window_start", "timestamp"), Column("window_end", "timestamp"), *keys, rows.own))
        stream = f".key_by({listed(keys)}).window({assigner}).reduce({function}).select({selected})"
        made = f"F.max({str(rows.own)!r}).alias({rows.own.name!r})"
        return replace(self._of_functions(rows, stream, window, keys, made, rows.own), own=None)

    def _windows_of_windows(self, rows: Rows) -> Rows:
        """Use windows over the results of windows, whose event time is the last millisecond of the window."""
        inner, number = self._aggregate_windows(rows), Column(self._name(), "bigint")
        assigner, window = self._choices.of(_WINDOWS)
        columns = [column for column in inner.columns if column.type != "timestamp"]
        keys = self._choices.some(columns, 2) if columns else []
        keyed = f".key_by({listed(keys)}).window({assigner})" if keys and self._choices.percent(50) else ""
        made = f"F.count('*').alias({number.name!r})"
        return self._of_windows(
            inner,
            f"{keyed or f'.window_all({assigner})'}.aggregate({made})",
            window,
            keys if keyed else [],
            made,
            number,
            time="window_end - INTERVAL 1 MILLISECOND",
        )

    def _apply_windows(self, rows: Rows) -> Rows:
        keys = self._keys(rows)
        assigner, window = self._choices.of(_WINDOWS)
        grouped = ", ".join(("'window_start'", "'window_end'", listed(keys)))
        number = Column(self._name(), "bigint")
        made = f"F.count('*').alias({number.name!r})"
        stream = f".key_by({listed(keys)}).window({assigner}).apply(lambda rows: rows.groupBy({grouped}).agg({made}))"
        return self._of_functions(rows, stream, window, keys, made, number)

    def _of_functions(
        self, rows: Rows, stream: str, window: str, keys: list[Column], aggregates: str, made: Column
    ) -> Rows:
        """Use windows with functions, which have millisecond precision, as in Flink."""
        millis = f"date_trunc('MILLISECOND', {rows.time})"
        return self._of_windows(rows, stream, window, keys, aggregates, made, time=millis)

    def _of_windows(
        self, rows: Rows, stream: str, window: str, keys: list[Column], aggregates: str, made: Column, time: str = ""
    ) -> Rows:
        grouped = ", ".join(
            (f"{window.format(f'F.expr({(time or str(rows.time))!r})')}.alias('window')", *map(repr, map(str, keys)))
        )
        bounds = ("'window.start AS window_start'", "'window.end AS window_end'")
        items = ", ".join((*bounds, *map(repr, map(str, keys)), repr(str(made))))
        truth = f".groupBy({grouped}).agg({aggregates}).selectExpr({items})"
        if "session" in window:
            # Spark does not merge sessions if a later projection drops their aggregates.
            truth += ".localCheckpoint()"
        ends = (Column("window_start", "timestamp"), Column("window_end", "timestamp"))
        return rows.then(stream, truth).kept((*ends, *keys, made))

    def _count_windows(self, rows: Rows) -> Rows:
        number = Column(self._name(), "bigint")
        if self._choices.percent(40):
            stream = f".count_window_all(3).process(CountAll({number.name!r}), {ddl([number])!r})"
            repeated = f"array_repeat(3L, CAST(count(*) DIV 3 AS INT)) AS {number}"
            truth = f".agg(F.expr({repeated!r})).select(F.explode({str(number)!r}).alias({number.name!r}))"
            return rows.then(stream, truth).kept((number,))
        keys = self._keys(rows)
        repeated = "F.expr('array_repeat(2L, CAST(count(*) DIV 2 AS INT)) AS windows')"
        exploded = f"{listed(keys)}, F.explode('windows').alias({number.name!r})"
        truth = f".groupBy({listed(keys)}).agg({repeated}).select({exploded})"
        return self._counted(rows, "count_window(2).process(CountWindow", keys, number, truth)
