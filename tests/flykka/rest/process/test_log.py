"""The log in memory: it retains the last bytes, and other handlers are not changed."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from flykka.rest.process.log import LOG_NAME, ProcessLog


@pytest.fixture
def log() -> Iterator[ProcessLog]:
    made = ProcessLog(500)
    made.attach()
    yield made
    made.detach()


def test_log_records_are_retained_with_level_logger_and_exception(log: ProcessLog) -> None:
    try:
        raise ValueError("no seven")
    except ValueError:
        logging.getLogger("flykka.spark_bridge").warning("it is %s", "slow", exc_info=True)

    first, *_, last = log.text().splitlines()

    assert first.endswith(" WARNING  flykka.spark_bridge: it is slow")
    assert last == "ValueError: no seven"


def test_only_the_last_lines_are_retained(log: ProcessLog) -> None:
    for number in range(100):
        logging.getLogger("flykka").warning("line %d", number)

    lines = log.text().splitlines()

    assert lines[-1].endswith("line 99")
    assert 0 < len(lines) < 100
    assert len(log.text()) <= 500
    assert log.sizes()[0][:2] == (LOG_NAME, len(log.text()))


def test_only_the_end_of_an_overlong_line_is_retained(log: ProcessLog) -> None:
    logging.getLogger("flykka").warning("x" * 1_000 + "end")

    assert log.text().endswith("xend\n")
    assert len(log.text()) == 500


def test_records_of_other_loggers_and_after_detaching_are_not_retained(log: ProcessLog) -> None:
    logging.getLogger("other").warning("not here")
    log.detach()
    logging.getLogger("flykka").warning("nor this")

    assert log.text() == ""


def test_warnings_are_printed_once_if_logging_is_not_configured(
    log: ProcessLog, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    second = ProcessLog()
    second.attach()

    logging.getLogger("flykka").warning("seen")
    logging.getLogger("flykka").info("not seen")
    second.detach()

    assert capsys.readouterr().err == "seen\n"


def test_no_warning_is_printed_if_logging_is_configured(
    log: ProcessLog, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [logging.NullHandler()])

    logging.getLogger("flykka").warning("told to the handler")

    assert capsys.readouterr().err == ""


def test_log_files_of_handlers_are_listed_by_unique_names(log: ProcessLog, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    paths = [tmp_path / "app.log", tmp_path / "other" / "app.log"]
    handlers = [logging.FileHandler(path) for path in paths]
    logger = logging.getLogger("tests.of.logs")
    for handler in handlers:
        logger.addHandler(handler)
        handler.emit(logging.makeLogRecord({"msg": "hello"}))
    try:
        files, sizes = log.files(), log.sizes()
    finally:
        for handler in handlers:
            logger.removeHandler(handler)
            handler.close()

    assert list(files.values()) == paths
    assert len(set(files)) == 2
    assert [size for name, size, _ in sizes if name in files] == [6, 6]
