"""Random SQL queries, each with the batch query that computes the expected result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.differential.choices import Choices
from benchmarks.differential.expressions import Column, aggregate, condition, expression, quoted, typed
from benchmarks.differential.tables import TYPES, Table

STATIC = "s"
"""The name of a Spark table with the columns sg and v."""

_COMMON_KEYS = ("k", "g", "b")
_WIDTHS = ("'15 minutes'", "'1 hour'", "'20 minutes', '10 minutes'")


@dataclass(frozen=True)
class Relation:
    """Rows that a query reads: the text in FROM, the columns, and known properties."""

    text: str
    columns: tuple[Column, ...]
    time: Column | None = None
    own: tuple[Column, ...] = ()
    """The columns that identify a row; if rows change, these are the columns that a SELECT must keep."""
    changes: bool = False

    def as_(self, alias: str) -> Relation:
        return Relation(
            f"{self.text} AS {alias}",
            tuple(Column(column.name, column.type, alias) for column in self.columns),
            None if self.time is None else Column(self.time.name, self.time.type, alias),
            tuple(Column(column.name, column.type, alias) for column in self.own),
            self.changes,
        )


class Queries:
    def __init__(self, choices: Choices, tables: Sequence[Table]) -> None:
        self._choices = choices
        self._tables = {table.name: table for table in tables}
        self._names = 0

    def draw(self) -> tuple[str, str]:
        """Draw a query, and return it with the batch query that has the same result."""
        kinds: tuple[Callable[[], str | tuple[str, str]], ...] = (
            self._projection,
            self._aggregation,
            self._windows,
            self._first_rows,
            self._distinct,
            self._set_operation,
            self._read_twice,
            self._regular_join,
            self._interval_join,
            self._join_of_windows,
            self._join_of_changing_rows,
            self._join_with_a_table,
            self._over_rows,
            self._version_of_a_time,
        )
        query = self._choices.of(kinds)()
        return query if isinstance(query, tuple) else (query, query)

    def _table(self, name: str) -> Relation:
        table = self._tables[name]
        columns = tuple(Column(name, TYPES[role]) for role, name in table.columns.items())
        roles = dict(zip(table.columns, columns, strict=True))
        return Relation(name, columns, roles["at"], (roles["id"],), table.primary_key)

    def _staying(self) -> Relation:
        return self._table(self._choices.of(("t", "u")))

    def _rows(self, *, changing: int = 30, keeps_time: bool = False) -> Relation:
        choices = self._choices
        rows = self._table(choices.of(("c", "e"))) if choices.percent(changing) else self._staying()
        if not choices.percent(40):
            return rows
        kept = [*rows.own, *([rows.time] if keeps_time and rows.time is not None else [])]
        items, columns = self._items(rows, kept)
        renamed = dict(zip(kept, columns, strict=False))
        text = f"(SELECT {items} FROM {rows.text}{self._where(rows)})"
        time = renamed.get(rows.time) if rows.time is not None else None
        return Relation(text, columns, time, tuple(renamed[column] for column in rows.own), rows.changes)

    def _name(self, hint: str) -> str:
        self._names += 1
        return f"{hint}{self._names}"

    def _items(self, rows: Relation, kept: Sequence[Column]) -> tuple[str, tuple[Column, ...]]:
        choices, items, columns = self._choices, [], []
        for column in kept:
            name = choices.of((column.name, self._name("n")))
            items.append(f"{column} AS {quoted(name)}")
            columns.append(Column(name, column.type))
        for _ in range(1 + choices.below(3)):
            text, type_ = expression(choices, rows.columns)
            name = self._name("n")
            items.append(f"{text} AS {name}")
            columns.append(Column(name, type_))
        return ", ".join(items), tuple(columns)

    def _where(self, rows: Relation, word: str = "WHERE", chance: int = 50) -> str:
        return f" {word} {condition(self._choices, rows.columns)}" if self._choices.percent(chance) else ""

    def _keys(self, rows: Relation, at_most: int = 2) -> list[Column]:
        return self._choices.some(
            typed(rows.columns, "string", "int", "boolean", "double", "decimal(10,2)", "date") or list(rows.own),
            at_most,
        )

    def _aggregates(self, rows: Relation, at_most: int = 3, *, plain: bool = False) -> str:
        drawn = [
            aggregate(self._choices, rows.columns, plain=plain)[0] for _ in range(1 + self._choices.below(at_most))
        ]
        return ", ".join(f"{text} AS {self._name('n')}" for text in drawn)

    def _projection(self) -> str:
        rows = self._rows()
        items, _ = self._items(rows, rows.own)
        return f"SELECT {items} FROM {rows.text}{self._where(rows)}"

    def _aggregation(self) -> str:
        choices, rows = self._choices, self._rows(changing=50)
        if choices.percent(15):
            return f"SELECT {self._aggregates(rows)} FROM {rows.text}{self._where(rows)}"
        keys = self._keys(rows)
        named = ", ".join(f"{key} AS {self._name('n')}" for key in keys)
        grouped = ", ".join(map(str, keys))
        query = f"SELECT {named}, {self._aggregates(rows)} FROM {rows.text}{self._where(rows)} GROUP BY {grouped}"
        if choices.percent(25):
            query += f" HAVING {choices.of(('count(*) > 1', 'count(*) < 3', f'max({rows.own[0]}) > 3'))}"
        elif choices.percent(25):
            counted = f"SELECT {grouped}, count(*) AS many FROM {rows.text}{self._where(rows)} GROUP BY {grouped}"
            query = f"SELECT many, count(*) AS n FROM ({counted}) GROUP BY many"
        return query

    def _windows(self) -> str:
        choices = self._choices
        rows = self._table("l") if choices.percent(35) else self._rows(changing=0, keeps_time=True)
        is_session = choices.percent(25)
        gap = choices.of(("'5 minutes'", "'12 minutes'"))
        window = f"session_window({rows.time}, {gap})" if is_session else f"window({rows.time}, {choices.of(_WIDTHS)})"
        keys = self._keys(rows) if choices.percent(75) else []
        bounds = [f"{window.split('(')[0]}.{end} AS {self._name('n')}" for end in ("start", "end")]
        named = [f"{key} AS {self._name('n')}" for key in keys]
        aggregates = self._aggregates(rows, plain=is_session)
        # A filter below windows over late rows would decide which of them are late.
        where = "" if rows.text == "l" else self._where(rows)
        grouped = ", ".join([*map(str, keys), window])
        query = f"SELECT {', '.join([*bounds, *named, aggregates])} FROM {rows.text}{where} GROUP BY {grouped}"
        return query + choices.of(("", "", " HAVING count(*) > 1"))

    def _first_rows(self) -> str:
        choices, rows = self._choices, self._rows(changing=40)
        by = self._keys(rows)
        order = [f"{choices.of(rows.columns)} {choices.of(('ASC', 'DESC', 'DESC NULLS FIRST'))}"]
        order += [str(column) for column in rows.own]
        columns = list(dict.fromkeys((*by, *rows.own)))
        kept = ", ".join(map(str, columns))
        number = f"row_number() OVER (PARTITION BY {', '.join(map(str, by))} ORDER BY {', '.join(order)}) AS place"
        bound = choices.of(
            ("place <= 2", "place = 1", "place < 3", "2 >= place", f"place <= 2 AND {condition(choices, columns)}")
        )
        return f"SELECT * FROM (SELECT {kept}, {number} FROM {rows.text}{self._where(rows)}) WHERE {bound}"

    def _distinct(self) -> str:
        rows = self._rows()
        keys = self._keys(rows, 3)
        named = ", ".join(f"{key} AS {self._name('n')}" for key in keys)
        if self._choices.percent(50):
            return f"SELECT {named} FROM {rows.text}{self._where(rows)} GROUP BY {', '.join(map(str, keys))}"
        return f"SELECT DISTINCT {named} FROM {rows.text}{self._where(rows)}"

    def _set_operation(self) -> str:
        choices = self._choices
        role = choices.of(("k", "g", "x", "d", "seen", "b", "day", "id"))
        word = choices.of(("UNION ALL", "UNION ALL", "UNION", "UNION", "INTERSECT", "EXCEPT"))
        sides = []
        for name in choices.of((("t", "u"), ("t", "t"), ("u", "t"))):
            rows = self._table(name)
            own, other = rows.own[0], quoted(self._tables[name].columns[role])
            first = f"{own} % 3" if word != "UNION ALL" else own
            sides.append(f"SELECT {first} AS n1, {other} AS n2 FROM {name}{self._where(rows)}")
        query = f" {word} ".join(sides)
        return f"SELECT n2, count(*) AS n FROM ({query}) GROUP BY n2" if choices.percent(30) else query

    def _read_twice(self) -> str:
        choices, rows = self._choices, self._rows(changing=25, keeps_time=True)
        items, columns = self._items(rows, rows.own)
        with_ = f"WITH q AS (SELECT {items} FROM {rows.text}{self._where(rows)})"
        own, other = quoted(columns[0].name), quoted(columns[-1].name)
        shared = Relation("q", columns)
        if rows.changes or choices.percent(50):
            selected = f"a.{own} AS own1, b.{own} AS own2, a.{other} AS other"
            return f"{with_} SELECT {selected} FROM q AS a JOIN q AS b ON a.{own} = b.{own}"
        parts = [f"SELECT {own}, {other} FROM q{self._where(shared)}" for _ in range(2)]
        return f"{with_} {' UNION ALL '.join(parts)}"

    def _sides(self, left: Relation, right: Relation) -> tuple[Relation, Relation, str, str]:
        """Return both sides with aliases, an equality, and columns of both that identify the results."""
        choices = self._choices
        left, right = left.as_("a"), right.as_("b")
        type_ = choices.of(("int", "string", "boolean", "bigint", "double"))
        pairs = [typed(side.columns, type_) for side in (left, right)]
        if not all(pairs):
            pairs = [list(left.own), list(right.own)]
        ours, theirs = (choices.of(pair) for pair in pairs)
        kept = dict.fromkeys((*left.own, *right.own, ours, theirs))
        named = ", ".join(f"{column} AS {self._name('n')}" for column in kept)
        extra = f"{expression(choices, left.columns)[0]} AS {self._name('n')}"
        return left, right, f"{ours} = {theirs}", f"{named}, {extra}"

    def _regular_join(self) -> str:
        choices = self._choices
        left, right, on, items = self._sides(self._rows(changing=0), self._rows(changing=0))
        if choices.percent(30):
            on += f" AND {condition(choices, right.columns)}"
        if choices.percent(30):
            return f"SELECT {items} FROM {left.text}, {right.text} WHERE {on}"
        return f"SELECT {items} FROM {left.text} JOIN {right.text} ON {on}{self._where(left, chance=30)}"

    def _interval_join(self) -> str:
        choices = self._choices
        drawn = [self._rows(changing=0, keeps_time=True) for _ in range(2)]
        left, right, on, items = self._sides(*drawn)
        kind = choices.of(("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
        bounds = choices.of(
            (
                "{b} BETWEEN {a} AND {a} + INTERVAL 10 MINUTES",
                "{b} >= {a} - INTERVAL 5 MINUTES AND {b} < {a} + INTERVAL 30 MINUTES",
                "{a} - {b} <= INTERVAL 3 MINUTES AND {a} >= {b}",
                "{b} = {a}",
            )
        ).format(a=left.time, b=right.time)
        if choices.percent(25):
            bounds += f" AND {condition(choices, left.columns)}"
        return f"SELECT {items} FROM {left.text} {kind} {right.text} ON {on} AND {bounds}"

    def _join_of_windows(self) -> str:
        choices, sides = self._choices, []
        width = choices.of(_WIDTHS)
        role = choices.of(_COMMON_KEYS)
        for name in ("t", "u"):
            rows, key = self._table(name), quoted(self._tables[name].columns[role])
            counted, _ = aggregate(choices, rows.columns, plain=True)
            sides.append(
                f"(SELECT window, {key} AS k, {counted} AS n FROM {name}{self._where(rows)}"
                f" GROUP BY {key}, window({rows.time}, {width}))"
            )
        kind = choices.of(("JOIN", "LEFT JOIN", "FULL JOIN"))
        items = "a.window.end AS n1, a.k AS n2, a.n AS n3, b.window.end AS n4, b.n AS n5"
        return f"SELECT {items} FROM {sides[0]} AS a {kind} {sides[1]} AS b ON a.window = b.window AND a.k = b.k"

    def _join_of_changing_rows(self) -> str:
        choices = self._choices
        left, right, on, items = self._sides(self._rows(changing=100), self._rows(changing=100))
        kind = choices.of(("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"))
        if "SEMI" in kind or "ANTI" in kind:
            items = ", ".join(f"{column} AS {self._name('n')}" for column in left.columns[:3])
        if choices.percent(25):
            on += f" AND {condition(choices, right.columns)}"
        return f"SELECT {items} FROM {left.text} {kind} {right.text} ON {on}"

    def _join_with_a_table(self) -> str:
        choices, rows = self._choices, self._rows().as_("a")
        items, _ = self._items(rows, rows.own)
        key = choices.of(typed(rows.columns, "int", "bigint"))
        match choices.below(4):
            case 0:
                return f"SELECT {items}, b.v FROM {rows.text} JOIN {STATIC} AS b ON {key} = b.sg"
            case 1:
                return f"SELECT {items}, b.v FROM {rows.text} LEFT JOIN {STATIC} AS b ON {key} = b.sg"
            case 2:
                word = choices.of(("IN", "NOT IN"))
                return f"SELECT {items} FROM {rows.text} WHERE {key} {word} (SELECT sg FROM {STATIC})"
            case _:
                return f"SELECT {items}, (SELECT max(sg) FROM {STATIC}) AS top FROM {rows.text}"

    def _over_rows(self) -> str:
        choices, rows = self._choices, self._rows(changing=100)
        by, own = self._keys(rows, 1)[0], rows.own[0]
        function = choices.of(("count(*)", "sum({0})", "avg({0})")).format(
            choices.of(typed(rows.columns, "int", "bigint"))
        )
        frame = f"PARTITION BY {by} ORDER BY {own} ROWS BETWEEN {1 + choices.below(3)} PRECEDING AND CURRENT ROW"
        items = ", ".join(dict.fromkeys((str(own), str(by))))
        return f"SELECT {items}, {function} OVER ({frame}) AS {self._name('n')} FROM {rows.text}{self._where(rows)}"

    def _version_of_a_time(self) -> tuple[str, str]:
        choices, left, right = self._choices, self._staying().as_("a"), self._table("e").as_("b")
        key = choices.of(typed(left.columns, "int", "bigint"))
        kind = choices.of(("JOIN", "LEFT JOIN"))
        picked = choices.some(right.columns, 2)
        items = ", ".join(f"{column} AS {self._name('n')}" for column in (*left.own, left.time, *picked))
        on = f"{key} = {right.own[0]}"
        own, at = quoted(right.own[0].name), quoted(right.columns[list(TYPES).index("at")].name)
        until = f"lead({at}) OVER (PARTITION BY {own} ORDER BY {at}, place) AS until"
        versions = f"(SELECT *, {until} FROM e_log) AS b"
        holds = f"b.{at} <= {left.time} AND (b.until IS NULL OR b.until > {left.time}) AND NOT b.is_deletion"
        query = f"SELECT {items} FROM {left.text} {kind} e FOR SYSTEM_TIME AS OF {left.time} AS b ON {on}"
        return (
            query,
            f"SELECT {items} FROM {left.text} {kind} {versions} ON {on} AND {holds} WHERE {left.time} IS NOT NULL",
        )
