"""Random programs of up to four stream methods, each with an equivalent function of DataFrames."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from benchmarks.differential.expressions import Column, aggregate, condition, expression, typed
from benchmarks.differential.queries import STATIC
from benchmarks.differential.rows import Rows, ddl, listed
from benchmarks.differential.two_streams import TwoStreamVerbs
from benchmarks.differential.windows import WindowVerbs

_DEPTH = 4


class Programs(TwoStreamVerbs, WindowVerbs):
    def draw(self) -> tuple[str, str]:
        choices = self._choices
        rows = self._table(choices.of(("t", "u", "l")))
        if rows.is_late:
            # The first method that uses event time decides which rows are late.
            rows = choices.of(self._window_verbs(rows))(rows)
        for _ in range(choices.below(_DEPTH) + (not rows.is_late)):
            rows = choices.of(self._verbs(rows))(rows)
            if rows.changes:
                break
        return rows.stream, rows.truth

    def _verbs(self, rows: Rows) -> list[Callable[[Rows], Rows]]:
        verbs: list[Callable[[Rows], Rows]] = [
            *(self._where, self._select, self._with_columns, self._rename, self._drop, self._transform, self._map),
            *(self._flat_map, self._frames, self._join_static, self._process, self._side_output, self._union),
            *(self._partition, self._number, self._running, self._distinct, self._count_windows, self._connect),
            *(self._process_table, self._regular_join, self._broadcast_set, self._broadcast_state),
        ]
        if rows.own is not None:
            verbs += [self._kept_row]
        if rows.time is not None and not rows.is_late:
            verbs += [*self._window_verbs(rows), self._windows_of_windows, self._at_end, self._within]
            verbs += [self._interval_join, self._temporal_join, self._window_join, self._co_group, self._reassign]
        return verbs

    def _where(self, rows: Rows) -> Rows:
        choices = self._choices
        if (numbers := typed(rows.columns, "int", "bigint")) and choices.percent(30):
            name = choices.of(numbers)
            function = f"lambda row: row[{name.name!r}] is not None and row[{name.name!r}] > 0"
            return rows.then(f".filter({function})", f".where({f'{name} > 0'!r})")
        return rows.then(f".{choices.of(('where', 'filter'))}({condition(choices, rows.columns)!r})")

    def _select(self, rows: Rows) -> Rows:
        some, (text, type_), name = self._some(rows), expression(self._choices, rows.columns), self._name()
        columns = (*some, Column(name, type_))
        if self._choices.percent(50):
            items = ", ".join((listed(some), f"F.expr({text!r}).alias({name!r})"))
            return rows.then(f".select({items})").kept(columns)
        items = ", ".join((listed(some), repr(f"{text} AS {name}")))
        return rows.then(f".select_expr({items})", f".selectExpr({items})").kept(columns)

    def _with_columns(self, rows: Rows) -> Rows:
        (text, type_), name = expression(self._choices, rows.columns), self._name()
        columns = (*rows.columns, Column(name, type_))
        if self._choices.percent(50):
            made = f"({{{name!r}: F.expr({text!r})}})"
            return rows.then(f".with_columns{made}", f".withColumns{made}").kept(columns)
        made = f"({name!r}, F.expr({text!r}))"
        return rows.then(f".with_column{made}", f".withColumn{made}").kept(columns)

    def _rename(self, rows: Rows) -> Rows:
        column = self._choices.of(rows.columns)
        new = Column(self._choices.of((self._name(), f"new.{self._name()}")), column.type)
        columns = tuple(new if each == column else each for each in rows.columns)
        made = f"({column.name!r}, {new.name!r})"
        renamed = rows.then(f".with_column_renamed{made}", f".withColumnRenamed{made}")
        time, own = (new if each == column else each for each in (rows.time, rows.own))
        return replace(renamed, columns=columns, time=time, own=own)

    def _drop(self, rows: Rows) -> Rows:
        column = self._choices.of(rows.columns)
        if column in (rows.time, rows.own) or len(rows.columns) == 1:
            return rows
        return rows.then(f".drop({column.name!r})").kept([each for each in rows.columns if each != column])

    def _transform(self, rows: Rows) -> Rows:
        return rows.then(f".transform(lambda rows: rows.where({condition(self._choices, rows.columns)!r}))")

    def _map(self, rows: Rows) -> Rows:
        some, name = self._some(rows), self._name()
        copied = f"**copied(row, {tuple(column.name for column in some)!r})"
        numbers = typed(rows.columns, "int", "bigint") or [rows.columns[0]]
        number = self._choices.of(numbers)
        is_null = f"{name!r}: row[{number.name!r}] is None"
        stream = f".map(lambda row: {{{copied}, {is_null}}}, {ddl(some, f'{name} boolean')!r})"
        truth = f".select({listed(some)}, F.expr({f'{number} IS NULL AS {name}'!r}))"
        return rows.then(stream, truth).kept((*some, Column(name, "boolean")))

    def _flat_map(self, rows: Rows) -> Rows:
        some = self._some(rows)
        copied = f"copied(row, {tuple(column.name for column in some)!r})"
        stream = f".flat_map(lambda row: [{copied}] * 2, {ddl(some)!r})"
        return rows.then(
            stream, f".select({listed(some)}, F.expr('explode(array(0, 1)) AS twice')).drop('twice')"
        ).kept(some)

    def _frames(self, rows: Rows) -> Rows:
        some, verb, part = self._some(rows), "map_in_arrow", "part.select({!r})"
        truth = f".select({listed(some)})"
        if self._choices.percent(50) and (of_pandas := self._of_pandas(rows)):
            some, verb, part = of_pandas, "map_in_pandas", "part[{!r}]"
            # pandas has one value for null and NaN.
            numbers = [
                f"nullif({each}, double('NaN')) AS {each}" if each.type == "double" else str(each) for each in some
            ]
            truth = f".selectExpr({', '.join(map(repr, numbers))})"
        picked = part.format([column.name for column in some])
        # Columns that a function does not need are dropped first, because pandas cannot represent times in all years.
        stream = f".select({listed(some)}).{verb}(lambda parts: ({picked} for part in parts), {ddl(some)!r})"
        return rows.then(stream, truth).kept(some)

    def _join_static(self, rows: Rows) -> Rows:
        numbers = typed(rows.columns, "int", "bigint")
        if not numbers or "v" in rows.names:
            return rows
        key, kind = self._choices.of(numbers), self._choices.of(("inner", "left", "left_semi", "left_anti"))
        on = f"F.expr({f'{key} = sg'!r})"
        joined = rows.then(f".join({STATIC}, {on}, {kind!r})")
        if "_" in kind:
            return joined
        return joined.then(".drop('sg')").kept((*rows.columns, Column("v", "string")))

    def _process(self, rows: Rows) -> Rows:
        some = self._some(rows)
        names = tuple(column.name for column in some)
        tag = f"OutputTag('side', {ddl(some)!r})"
        stream = f".process(Copy({names!r}, {tag}), {ddl(some)!r})"
        if self._choices.percent(50):
            stream += f".get_side_output({tag})"
        return rows.then(stream, f".select({listed(some)})").kept(some)

    def _broadcast_set(self, rows: Rows) -> Rows:
        some, number = self._some(rows), Column(self._name(), "bigint")
        columns = (*some, number)
        function = f"SizeOfSet({tuple(column.name for column in some)!r}, {number.name!r})"
        stream = f".process({function}, {ddl(columns)!r}).with_broadcast_set(env.from_dataframe({STATIC}), 'static')"
        return rows.then(stream, f".select({listed(some)}, F.lit(4).cast('bigint').alias({number.name!r}))").kept(
            columns
        )

    def _broadcast_state(self, rows: Rows) -> Rows:
        some = self._some(rows)
        function = f"CopyBesideRules({tuple(column.name for column in some)!r})"
        rules = f"env.from_dataframe({STATIC}.where('sg IS NOT NULL')).broadcast(RULES)"
        stream = f".connect({rules}).process({function}, {ddl(some)!r})"
        # The watermark is that of the slower input, and the rules have none, so the result has no event time.
        return replace(rows.then(stream, f".select({listed(some)})").kept(some), time=None)

    def _side_output(self, rows: Rows) -> Rows:
        text, side = condition(self._choices, rows.columns), self._choices.below(2)
        truth = text if side else f"NOT coalesce({text}, false)"
        return rows.then(f".side_output({text!r})[{side}]", f".where({truth!r})")

    def _union(self, rows: Rows) -> Rows:
        text = condition(self._choices, rows.columns)
        stream = f"(lambda rows: rows.union(rows.where({text!r})))({rows.stream})"
        return replace(rows, stream=stream, truth=f"(lambda rows: rows.union(rows.where({text!r})))({rows.truth})")

    def _partition(self, rows: Rows) -> Rows:
        # Operator settings are refused on a partitioned stream, so another method follows.
        return self._where(
            rows.then(f".{self._choices.of(('rebalance', 'rescale', 'shuffle', 'global_', 'forward'))}()", "")
        )

    def _reassign(self, rows: Rows) -> Rows:
        assert rows.time is not None
        strategy = f"WatermarkStrategy.for_bounded_out_of_orderness('10d').with_timestamp_column({rows.time.name!r})"
        return rows.then(f".assign_timestamps_and_watermarks({strategy})", "")

    def _number(self, rows: Rows) -> Rows:
        keys, number = self._keys(rows), Column(self._name(), "bigint")
        over = f"CAST(row_number() OVER (PARTITION BY {', '.join(map(str, keys))} ORDER BY 1) AS BIGINT) AS {number}"
        return self._counted(rows, "process(Number", keys, number, f".select({listed(keys)}, F.expr({over!r}))")

    def _at_end(self, rows: Rows) -> Rows:
        keys, number = self._keys(rows), Column(self._name(), "bigint")
        truth = f".groupBy({listed(keys)}).agg(F.count('*').alias({number.name!r}))"
        return self._counted(rows, "process(CountAtEnd", keys, number, truth)

    def _running(self, rows: Rows) -> Rows:
        choices, keys, name = self._choices, self._keys(rows), self._name()
        numbers = [column for column in typed(rows.columns, "int", "double", "bigint") if column not in keys]
        if numbers and choices.percent(50):
            column, verb = choices.of(numbers), choices.of(("sum", "min", "max"))
            stream = f".{verb}({column.name!r})"
            truth = f".agg(F.expr({f'{verb}({column})'!r}).alias({column.name!r}))"
        elif choices.percent(30):
            stream, truth = f".count({name!r})", f".agg(F.count('*').alias({name!r}))"
        else:
            text, _ = aggregate(choices, rows.columns, plain=True)
            stream = f".aggregate(F.expr({text!r}).alias({name!r}))"
            truth = f".agg(F.expr({text!r}).alias({name!r}))"
        made = rows.then(f".key_by({listed(keys)}){stream}", f".groupBy({listed(keys)}){truth}")
        return replace(made, changes=True, time=None)

    def _kept_row(self, rows: Rows) -> Rows:
        keys, verb = self._keys(rows), self._choices.of(("min_by", "max_by", "reduce"))
        assert rows.own is not None
        order = "" if verb == "min_by" else " DESC"
        function = f"lambda a, b: max(a, b, key=lambda row: row[{rows.own.name!r}])"
        stream = f".reduce({function})" if verb == "reduce" else f".{verb}({rows.own.name!r})"
        over = f"row_number() OVER (PARTITION BY {', '.join(map(str, keys))} ORDER BY {rows.own}{order})"
        truth = f".withColumn('place', F.expr({over!r})).where('place = 1').drop('place')"
        return replace(rows.then(f".key_by({listed(keys)}){stream}", truth), changes=True, time=None)

    def _process_table(self, rows: Rows) -> Rows:
        keys = self._keys(rows, 1)
        output = ddl(rows.columns)
        stream = f".process_table(numbered_table, state='batches bigint', output={output!r})"
        return rows.then(f".key_by({listed(keys)}){stream}", "")

    def _distinct(self, rows: Rows) -> Rows:
        keys = self._keys(rows, 3)
        names = [column.name for column in keys]
        made = rows.then(f".drop_duplicates({names!r}).select({listed(keys)})", f".select({listed(keys)}).distinct()")
        return made.kept(keys)

    def _within(self, rows: Rows) -> Rows:
        keys = self._keys(rows, 3)
        names = [column.name for column in keys]
        has_time = f"{rows.time} IS NOT NULL"
        stream = f".where({has_time!r}).drop_duplicates({names!r}, within='10d').select({listed(keys)})"
        return rows.then(stream, f".where({has_time!r}).select({listed(keys)}).distinct()").kept(keys)
