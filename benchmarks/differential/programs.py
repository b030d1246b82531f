"""Random programs of verbs, up to four one after the other, each with a function of DataFrames that says its result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from benchmarks.differential.choices import Choices
from benchmarks.differential.expressions import Column, aggregate, condition, expression, typed
from benchmarks.differential.queries import STATIC
from benchmarks.differential.tables import TYPES, Table

_DEPTH = 4
_WINDOWS = (
    ("TumblingEventTimeWindows.of('15min')", "F.window({}, '15 minutes')"),
    ("SlidingEventTimeWindows.of('20min', '10min')", "F.window({}, '20 minutes', '10 minutes')"),
    ("EventTimeSessionWindows.with_gap('12min')", "F.session_window({}, '12 minutes')"),
)


@dataclass(frozen=True)
class Rows:
    """The rows after some verbs: the text of the stream and that of the DataFrame."""

    stream: str
    truth: str
    columns: tuple[Column, ...]
    time: Column | None = None
    own: Column | None = None
    """A column that no two rows share, unless they are alike in all."""
    is_late: bool = False
    changes: bool = False

    def then(self, stream: str, truth: str | None = None) -> Rows:
        """The rows after one more verb, which the DataFrame may have under the same name."""
        return replace(self, stream=self.stream + stream, truth=self.truth + (stream if truth is None else truth))

    def kept(self, columns: Sequence[Column]) -> Rows:
        """The same of rows that have these columns."""
        time, own = (column if column in columns else None for column in (self.time, self.own))
        return replace(self, columns=tuple(columns), time=time, own=own)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)


def ddl(columns: Sequence[Column], *more: str) -> str:
    """The columns as a text of their types."""
    return ", ".join((*(f"{column} {column.type}" for column in columns), *more))


def listed(columns: Sequence[Column]) -> str:
    """The columns, quoted, as arguments."""
    return ", ".join(repr(str(column)) for column in columns)


class Programs:
    """Draws programs over the tables of a seed."""

    def __init__(self, choices: Choices, tables: Sequence[Table]) -> None:
        self._choices = choices
        self._tables = {table.name: table for table in tables}
        self._names = 0

    def draw(self) -> tuple[str, str]:
        """The texts of a stream and of a DataFrame."""
        choices = self._choices
        rows = self._table(choices.of(("t", "u", "l")))
        if rows.is_late:
            # Which rows are late is decided by the first verb that asks for their time.
            rows = choices.of((self._aggregate_windows, self._call_windows, self._apply_windows))(rows)
        for _ in range(choices.below(_DEPTH) + (not rows.is_late)):
            rows = choices.of(self._verbs(rows))(rows)
            if rows.changes:
                break
        return rows.stream, rows.truth

    def _table(self, name: str) -> Rows:
        table = self._tables[name]
        columns = {role: Column(name, TYPES[role]) for role, name in table.columns.items()}
        return Rows(name, name, tuple(columns.values()), columns["at"], columns["id"], bool(table.late))

    def _verbs(self, rows: Rows) -> list[Callable[[Rows], Rows]]:
        """The verbs that these rows allow."""
        verbs: list[Callable[[Rows], Rows]] = [
            *(self._where, self._select, self._with_columns, self._rename, self._drop, self._transform, self._map),
            *(self._flat_map, self._frames, self._join_static, self._process, self._side_output, self._union),
            *(self._partition, self._number, self._running, self._distinct, self._count_windows, self._connect),
            *(self._process_table, self._regular_join),
        ]
        if rows.own is not None:
            verbs += [self._kept_row]
        if rows.time is not None and not rows.is_late:
            verbs += [self._aggregate_windows, self._call_windows, self._apply_windows, self._at_end, self._within]
            verbs += [self._interval_join, self._temporal_join, self._window_join, self._co_group, self._reassign]
        return verbs

    def _name(self) -> str:
        self._names += 1
        return f"n{self._names}"

    def _keys(self, rows: Rows, at_most: int = 2) -> list[Column]:
        return self._choices.some(
            typed(rows.columns, "string", "int", "boolean", "double", "bigint") or rows.columns, at_most
        )

    def _some(self, rows: Rows) -> list[Column]:
        """Columns, among them those that later verbs need."""
        some = self._choices.some(rows.columns, 4)
        return [column for column in rows.columns if column in (*some, rows.time, rows.own)]

    # Verbs without state

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
        some = self._some(rows)
        names = [column.name for column in some]
        stream = self._choices.of(
            (
                f".map_in_arrow(lambda parts: (part.select({names!r}) for part in parts), {ddl(some)!r})",
                f".map_in_pandas(lambda parts: (part[{names!r}] for part in parts), {ddl(some)!r})",
            )
        )
        return rows.then(stream, f".select({listed(some)})").kept(some)

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

    def _side_output(self, rows: Rows) -> Rows:
        text, side = condition(self._choices, rows.columns), self._choices.below(2)
        truth = text if side else f"NOT coalesce({text}, false)"
        return rows.then(f".side_output({text!r})[{side}]", f".where({truth!r})")

    def _union(self, rows: Rows) -> Rows:
        text = condition(self._choices, rows.columns)
        stream = f"(lambda rows: rows.union(rows.where({text!r})))({rows.stream})"
        return replace(rows, stream=stream, truth=f"(lambda rows: rows.union(rows.where({text!r})))({rows.truth})")

    def _partition(self, rows: Rows) -> Rows:
        # What is set on a partitioned stream is refused, so a verb follows.
        return self._where(
            rows.then(f".{self._choices.of(('rebalance', 'rescale', 'shuffle', 'global_', 'forward'))}()", "")
        )

    def _reassign(self, rows: Rows) -> Rows:
        assert rows.time is not None
        strategy = f"WatermarkStrategy.for_bounded_out_of_orderness('10d').with_timestamp_column({rows.time.name!r})"
        return rows.then(f".assign_timestamps_and_watermarks({strategy})", "")

    # Verbs with state of keys

    def _number(self, rows: Rows) -> Rows:
        keys, number = self._keys(rows), Column(self._name(), "bigint")
        over = f"CAST(row_number() OVER (PARTITION BY {', '.join(map(str, keys))} ORDER BY 1) AS BIGINT) AS {number}"
        return self._counted(rows, "process(Number", keys, number, f".select({listed(keys)}, F.expr({over!r}))")

    def _at_end(self, rows: Rows) -> Rows:
        keys, number = self._keys(rows), Column(self._name(), "bigint")
        truth = f".groupBy({listed(keys)}).agg(F.count('*').alias({number.name!r}))"
        return self._counted(rows, "process(CountAtEnd", keys, number, truth)

    def _counted(self, rows: Rows, verb: str, keys: list[Column], number: Column, truth: str) -> Rows:
        """The keys and a number, which a function emits."""
        names, columns = tuple(key.name for key in keys), (*keys, number)
        stream = f".key_by({listed(keys)}).{verb}({names!r}, {number.name!r}), {ddl(columns)!r})"
        return rows.then(stream, truth).kept(columns)

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

    # Windows

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
        keys, number = self._keys(rows), Column(self._name(), "bigint")
        assigner, window = self._choices.of(_WINDOWS)
        counted = self._counted(rows, f"window({assigner}).process(CountWindow", keys, number, "")
        made = self._of_windows(rows, "", window, keys, f"F.count('*').alias({number.name!r})", number)
        return replace(counted, truth=f"{made.truth}.drop('window_start', 'window_end')")

    def _apply_windows(self, rows: Rows) -> Rows:
        keys = self._keys(rows)
        assigner, window = self._choices.of(_WINDOWS)
        grouped = ", ".join(("'window_start'", "'window_end'", listed(keys)))
        number = Column(self._name(), "bigint")
        made = f"F.count('*').alias({number.name!r})"
        stream = f".key_by({listed(keys)}).window({assigner}).apply(lambda rows: rows.groupBy({grouped}).agg({made}))"
        return self._of_windows(rows, stream, window, keys, made, number)

    def _of_windows(
        self, rows: Rows, stream: str, window: str, keys: list[Column], aggregates: str, made: Column
    ) -> Rows:
        grouped = ", ".join(
            (f"{window.format(f'F.col({str(rows.time)!r})')}.alias('window')", *map(repr, map(str, keys)))
        )
        bounds = ("'window.start AS window_start'", "'window.end AS window_end'")
        items = ", ".join((*bounds, *map(repr, map(str, keys)), repr(str(made))))
        truth = f".groupBy({grouped}).agg({aggregates}).selectExpr({items})"
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

    # Two streams

    def _other(self, rows: Rows) -> tuple[Rows, Column, Column] | None:
        """Another table, and a column of both by which rows meet."""
        other = self._table(self._choices.of(("u", "t")))
        type_ = self._choices.of(("int", "string", "boolean", "double"))
        ours, theirs = (typed(side.columns, type_) for side in (rows, other))
        return (other, self._choices.of(ours), self._choices.of(theirs)) if ours and theirs else None

    def _connect(self, rows: Rows) -> Rows:
        if (met := self._other(rows)) is None:
            return rows
        other, ours, theirs = met
        connected = f".connect({other.stream})"
        first, second = (repr((column.name,)) for column in (ours, theirs))
        type_ = f"{ours} {ours.type}"
        times = f".select({str(ours)!r})"
        theirs_text = f"{other.truth}.select({str(theirs)!r})"
        kept: tuple[Column, ...] = (Column(ours.name, ours.type),)
        match self._choices.below(4):
            case 0:
                stream, truth = f".process(Both({first}, {second}), {type_!r})", f"{times}.union({theirs_text})"
            case 1:
                stream, truth = f".map(MapBoth({first}, {second}), {type_!r})", f"{times}.union({theirs_text})"
            case 2:
                stream = f".flat_map(FlatMapBoth({first}, {second}), {type_!r})"
                truth = (
                    f".select({str(ours)!r}, F.explode(F.array(F.lit(0), F.lit(1)))).drop('col').union({theirs_text})"
                )
            case _:
                stream = (
                    f".key_by({str(ours)!r}, {str(theirs)!r}).process(NumberBoth(), {f'key {ours.type}, n bigint'!r})"
                )
                over = "CAST(row_number() OVER (PARTITION BY key ORDER BY 1) AS BIGINT) AS n"
                renamed = f".select(F.expr({str(ours)!r}).alias('key'))"
                truth = f"{renamed}.union({theirs_text}).select('key', F.expr({over!r}))"
                kept = (Column("key", ours.type), Column("n", "bigint"))
        return replace(rows.then(connected + stream, truth), time=None, own=None, columns=kept)

    def _joined(self, rows: Rows, verb: str, on: str, how: str = "inner", where: str = "") -> Rows:
        """The rows that meet those of another table; `on` is for the DataFrames, of ours, theirs and both times."""
        if (met := self._other(rows)) is None:
            return rows
        other, ours, theirs = met
        names = {"ours": f"left.{ours}", "theirs": f"right.{theirs}", "at": f"left.{rows.time}"}
        names |= {"of": f"right.{other.time}", "key": str(theirs), "time": str(other.time), "id": str(other.own)}
        columns = [("left", column) for column in self._some(rows)] + [("right", self._choices.of(other.columns))]
        kept = tuple(Column(f"j{place}", column.type) for place, (_, column) in enumerate(columns))
        items = ", ".join(
            f"F.expr({f'{side}.{column}'!r}).alias({new.name!r})"
            for (side, column), new in zip(columns, kept, strict=True)
        )
        verb = verb.format(
            other=other.stream,
            **{name: repr(text) for name, text in names.items()},
            our=repr(str(ours)),
            their=repr(str(theirs)),
        )
        versions = where.format(**names)
        met_by = f"F.expr({on.format(**names)!r}), {how!r}"
        truth = f"{rows.truth}.alias('left').join({other.truth}{versions}.alias('right'), {met_by})"
        return Rows(f"{rows.stream}{verb}.select({items})", f"{truth}.select({items})", kept)

    def _regular_join(self, rows: Rows) -> Rows:
        return self._joined(rows, ".key_by({our}).regular_join({other}.key_by({their}))", "{ours} = {theirs}")

    def _interval_join(self, rows: Rows) -> Rows:
        verb = ".key_by({our}).interval_join({other}.key_by({their})).between('-10min', '5min')"
        bounds = "{of} BETWEEN {at} - INTERVAL 10 MINUTES AND {at} + INTERVAL 5 MINUTES"
        how = self._choices.of(("inner", "left", "right", "full"))
        return self._joined(
            rows, verb + ("" if how == "inner" else f".{how}_outer()"), f"{{ours}} = {{theirs}} AND {bounds}", how
        )

    def _temporal_join(self, rows: Rows) -> Rows:
        how = self._choices.of(("inner", "left"))
        verb = ".key_by({our}).temporal_join({other}.key_by({their}))" + (".left_outer()" if how == "left" else "")
        until = "lead({time}) OVER (PARTITION BY {key} ORDER BY {time}, {id})"
        versions = f'.where("""{{time}} IS NOT NULL""").withColumn("until", F.expr("""{until}"""))'
        on = "{ours} = {theirs} AND {of} <= {at} AND (right.until IS NULL OR right.until > {at})"
        timed = rows.then("", f".where({f'{rows.time} IS NOT NULL'!r})")
        return self._joined(timed, verb, on, how, versions)

    def _window_join(self, rows: Rows) -> Rows:
        verb = ".join({other}).where({our}).equal_to({their}).window(TumblingEventTimeWindows.of('15min'))"
        same = "window({at}, '15 minutes').start = window({of}, '15 minutes').start"
        return self._joined(rows, verb, f"{{ours}} = {{theirs}} AND {same}")

    def _co_group(self, rows: Rows) -> Rows:
        if (met := self._other(rows)) is None:
            return rows
        other, ours, theirs = met
        stream = (
            f".co_group({other.stream}).where({str(ours)!r}).equal_to({str(theirs)!r})"
            ".window(TumblingEventTimeWindows.of('15min')).apply(counted_group, 'm bigint, n bigint')"
        )
        sides = [
            f"{side.truth}.select(F.expr({str(key)!r}).alias('key'), F.window(F.col({str(side.time)!r}), '15 minutes'),"
            f" F.lit({m}).alias('m'), F.lit({1 - m}).alias('n'))"
            for m, side, key in ((1, rows, ours), (0, other, theirs))
        ]
        truth = (
            f"{sides[0]}.union({sides[1]}).groupBy('key', 'window').agg(F.sum('m').alias('m'), F.sum('n').alias('n'))"
        )
        columns = (Column("m", "bigint"), Column("n", "bigint"))
        return Rows(rows.stream + stream, f"{truth}.select('m', 'n')", columns)
