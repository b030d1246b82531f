"""A stack is reduced to the author's own lines: first the lines of the failure, then those of its causes."""

from __future__ import annotations

import traceback
from pathlib import Path

import flykka
from flykka.messages.wire.failure import SerializedThrowable
from flykka.views.text.user_stack import full_text, user_story

WORKER = """\
Traceback (most recent call last):
  File "OURS/flykka/spark_bridge/stages/flow.py", line 90, in run
    batch.count()
    ~~~~~~~~~~~^^
  File "/usr/lib/python3/dist-packages/pyspark/sql/dataframe.py", line 1240, in count
    return int(self._jdf.count())
pyspark.errors.exceptions.captured.PythonException:
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "/usr/lib/python3/dist-packages/pyspark/worker.py", line 1247, in main
    process()
  File "/home/me/app.py", line 8, in rate
    return RATES[country]
           ~~~~~^^^^^^^^^
KeyError: 'DE'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/usr/lib/python3/dist-packages/pyspark/worker.py", line 1247, in main
    process()
  File "/home/me/app.py", line 14, in taxed
    return price * rate(country)
  File "/home/me/app.py", line 10, in rate
    raise ValueError(f"no rate for {country}")
ValueError: no rate for DE


The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "OURS/flykka/spark_bridge/attempt.py", line 90, in work
    run()
flykka.spark_bridge.errors.OperatorFailedError: operator 'taxed'
""".replace("OURS", str(Path(flykka.__file__).resolve().parents[1]))


def failure(type_name: str, stack: str) -> SerializedThrowable:
    return SerializedThrowable(type_name=type_name, message="", stack_trace=stack)


def test_a_worker_error_is_shown_with_the_lines_of_its_function() -> None:
    assert user_story(failure("ValueError", WORKER)) == [
        '  File "/home/me/app.py", line 14, in taxed',
        "    return price * rate(country)",
        '  File "/home/me/app.py", line 10, in rate',
        '    raise ValueError(f"no rate for {country}")',
        "caused by KeyError: 'DE'",
        '  File "/home/me/app.py", line 8, in rate',
        "    return RATES[country]",
    ]


def test_a_failure_without_user_lines_shows_no_line() -> None:
    assert user_story(failure("OperatorFailedError", WORKER)) == []
    assert user_story(failure("SlotLostError", "")) == []


def test_a_python_stack_of_this_process_is_parsed() -> None:
    def divide() -> float:
        return 1 / 0

    try:
        divide()
    except ZeroDivisionError as raised:
        story = user_story(failure("ZeroDivisionError", "".join(traceback.format_exception(raised))))

    assert [line for line in story if line.startswith("    ")] == ["    divide()", "    return 1 / 0"]


def test_only_some_of_infinitely_many_causes_are_shown() -> None:
    one = 'Traceback (most recent call last):\n  File "/home/me/app.py", line 1, in f\n    f()\nE: x\n\n'
    chain = "During handling of the above exception, another exception occurred:\n\n"

    story = user_story(failure("E", chain.join([one] * 50)))

    assert sum(line.startswith("caused by") for line in story) == 3


def test_a_failure_shows_its_operators_line_above_its_own() -> None:
    said = """operator 'taxed' (app.py:40): no rate for DE
  File "/home/me/app.py", line 40, in taxed
    orders.with_column("price", taxed("price"))
  File "/home/me/app.py", line 10, in rate
    raise ValueError(f"no rate for {country}")
failed 10 times in a row"""

    text = full_text(SerializedThrowable(type_name="ValueError", message=said, stack_trace=WORKER))

    assert text[:6] == [
        "operator 'taxed' (app.py:40): no rate for DE",
        "failed 10 times in a row",
        '  File "/home/me/app.py", line 40, in taxed',
        '    orders.with_column("price", taxed("price"))',
        '  File "/home/me/app.py", line 14, in taxed',
        "    return price * rate(country)",
    ]
    assert text.count('  File "/home/me/app.py", line 10, in rate') == 1


def test_a_failure_without_a_stack_is_shown_unchanged() -> None:
    message = 'one of these has failed:\n  File "app.py", line 1, in a\n  File "app.py", line 2, in b'

    assert full_text(SerializedThrowable(type_name="ValueError", message=message)) == message.splitlines()
