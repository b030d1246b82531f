"""Secrets in settings with known names are masked in failures, logs and traces."""

from __future__ import annotations

import io
import logging
from pathlib import Path

import pytest

from flykka.messages.wire.message import Message
from flykka.runtime.actor import Actor
from flykka.runtime.errors import serialized
from flykka.runtime.masked_logs import mask_logs
from flykka.runtime.props import Props
from flykka.runtime.secrets import Secrets, masked, masked_uri, remember_secrets
from flykka.runtime.testing.seeded import SeededSystem
from flykka.runtime.trace.file.reader import TraceReader
from flykka.runtime.trace.record.recorder import TraceRecorder
from tests.runtime.scripted_actors import says

SECRET = "hunter2-of-the-tests"


@pytest.fixture(autouse=True)
def configured() -> None:
    remember_secrets({"password": SECRET})
    mask_logs()


class LogsIn(Actor):
    def handle_message(self, message: Message) -> None:
        try:
            raise PermissionError(f"the server refuses {SECRET}")
        except PermissionError as refused:
            raise ValueError(f"no login with password={SECRET}") from refused


def test_a_failure_and_its_causes_contain_no_secrets() -> None:
    try:
        try:
            raise PermissionError(f"the server refuses {SECRET}")
        except PermissionError as refused:
            raise ValueError(f"no login with {SECRET}") from refused
    except ValueError as raised:
        failure = serialized(raised)

    assert failure.message == "no login with ***"
    assert "the server refuses ***" in failure.stack_trace
    assert SECRET not in failure.stack_trace


@pytest.mark.parametrize("name", ["flykka", "flykka.actors.job_master"])
def test_secrets_are_masked_in_logs_with_any_handler(name: str) -> None:
    written = io.StringIO()
    handler, logger = logging.StreamHandler(written), logging.getLogger(name)
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger.addHandler(handler)
    try:
        raise ValueError(f"no login with {SECRET}")
    except ValueError:
        logger.exception("%s: %d of %s", "login", 1, SECRET)
    finally:
        logger.removeHandler(handler)

    assert written.getvalue().startswith("login: 1 of ***\nTraceback ")
    assert "ValueError: no login with ***" in written.getvalue()
    assert SECRET not in written.getvalue()


def test_logs_of_other_libraries_are_not_changed(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("shop").warning("the word is %s", SECRET)

    assert caplog.messages == [f"the word is {SECRET}"]


def test_log_records_can_be_created_from_dictionaries_while_logs_are_masked() -> None:
    record = logging.makeLogRecord({"name": "another", "msg": "hello"})

    assert (record.name, record.getMessage()) == ("another", "hello")


def test_a_trace_contains_no_secrets(tmp_path: Path) -> None:
    path = tmp_path / "run.trace"
    with SeededSystem(5, recorder=TraceRecorder(path)) as system:
        system.spawn(Props(LogsIn), "logs-in").tell(says("now"))
        system.run_until_idle()

    failures = [turn.failure for turn in TraceReader.open(path) if turn.failure is not None]
    assert [failure.message for failure in failures] == ["no login with password=***"]
    assert SECRET not in str(failures)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("password", "hunter2", "hunter2"),
        ("spark.hadoop.fs.s3a.secret.key", "AbC/d+e=", "AbC/d+e="),
        ("spark.hadoop.fs.s3a.access.key", "AKIA1234", "AKIA1234"),
        ("AWS_SECRET_ACCESS_KEY", "AbC/d+e=", "AbC%2Fd%2Be%3D"),
        ("account_key", "a\\b'c", r"a\\b'c"),
        ("sasl.jaas.config", 'ScramLoginModule required username="u" password="hunter2";', "hunter2"),
        ("url", "jdbc:postgresql://shop:hunter2@db/shop", "hunter2"),
    ],
)
def test_a_secret_is_recognised_by_the_name_of_its_setting(name: str, value: str, text: str) -> None:
    secrets = Secrets()
    secrets.remember({name: value})

    assert secrets.masked(f"refused: {text}, he said") == "refused: ***, he said"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("user", "somebody"),
        ("password_file", "/run/secrets/db"),
        ("spark.hadoop.fs.s3a.aws.credentials.provider", "org.apache.hadoop.Anonymous"),
        ("secret", "abc"),
        ("anon_token", "true"),
        ("token", 123456),
        ("path", "s3://bucket/orders"),
    ],
)
def test_other_settings_are_not_masked(name: str, value: object) -> None:
    secrets = Secrets()
    secrets.remember({name: value})

    assert secrets.masked(f"refused: {value}") == f"refused: {value}"


def test_a_secret_within_another_secret_is_masked_with_it() -> None:
    secrets = Secrets()
    secrets.remember({"token": "abcd"})
    secrets.remember({"password": "abcdefgh"})

    assert secrets.masked("abcdefgh abcd") == "*** ***"
    assert masked("s3://key:word@bucket") == "s3://***@bucket"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("s3://key:secret@bucket/a@b", "s3://***@bucket/a@b"),
        ("s3a://bucket/folder", "s3a://bucket/folder"),
        ("abfss://container@account/x", "abfss://container@account/x"),
        ("/data/a@b", "/data/a@b"),
    ],
)
def test_credentials_of_a_uri_are_not_shown(path: str, text: str) -> None:
    assert masked_uri(path) == text
