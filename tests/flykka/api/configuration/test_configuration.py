"""Errors about options name where the option was set."""

from __future__ import annotations

from pathlib import Path

import pytest

from flykka.api.configuration.configuration import (
    environment_values,
    merged,
    read_values,
    unknown_variables,
)
from flykka.api.configuration.file import configuration_file, file_values
from flykka.api.launch import Launch, LaunchOptions
from flykka.errors import ConfigurationError

PYPROJECT = """
[project]
name = "prices"

[tool.flykka]
parallelism = 4
checkpoint_interval = "10s"
unaligned_checkpoints = true
overwrite = ["out", "/late"]
"""


def test_an_options_file_may_be_yaml(tmp_path: Path) -> None:
    file = tmp_path / "flykka.yaml"
    file.write_text("parallelism: 4\ncheckpoint_dir: checkpoints\nhigh_availability: /store\n")

    values = file_values(file)

    assert (values["parallelism"], values["checkpoint_dir"]) == (4, str(tmp_path / "checkpoints"))


def test_options_may_be_in_a_table_of_pyproject(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)

    file = configuration_file({}, tmp_path)

    assert file is not None
    assert file_values(file) == {
        "parallelism": 4,
        "checkpoint_interval": 10_000,
        "unaligned_checkpoints": True,
        "overwrite": (str(tmp_path / "out"), "/late"),
    }


def test_a_pyproject_file_without_the_table_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'prices'\n")

    assert configuration_file({}, tmp_path) is None


def test_an_environment_variable_selects_or_disables_the_options_file(tmp_path: Path) -> None:
    (tmp_path / "flykka.yaml").write_text("parallelism: 4\n")
    (tmp_path / "big.yaml").write_text("parallelism: 64\n")

    assert configuration_file({"FLYKKA_CONFIG": "big.yaml"}, tmp_path) == tmp_path / "big.yaml"
    assert configuration_file({"FLYKKA_CONFIG": ""}, tmp_path) is None
    with pytest.raises(ConfigurationError, match=r"^FLYKKA_CONFIG: there is no file small\.yaml$"):
        configuration_file({"FLYKKA_CONFIG": "small.yaml"}, tmp_path)


def test_two_options_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "flykka.yaml").write_text("parallelism: 4\n")
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)

    with pytest.raises(
        ConfigurationError, match=r"flykka\.yaml and \[tool\.flykka\] of .* contain options: keep one of them"
    ):
        configuration_file({}, tmp_path)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("paralelism: 4", r"flykka\.yaml: paralelism: unknown option \(did you mean parallelism\?\)$"),
        ("parallelism: many", r"flykka\.yaml: parallelism: 'many' is not a whole number from 1$"),
        ("parallelism: true", "parallelism: True is not a whole number from 1$"),
        ("parallelism:", "parallelism: None is not a whole number from 1$"),
        ("checkpoint_interval: soon", "checkpoint_interval: the length of time 'soon' is not of the form"),
        (
            "retention: keep",
            "retention: 'keep' is not one of no-externalized-checkpoints, delete-on-cancellation, retain",
        ),
        ("operator_chaining: 1", "operator_chaining: 1 is neither true nor false$"),
        ("overwrite: {a: b}", "overwrite: {'a': 'b'} is not a list of paths$"),
        ("checkpoint_dir: ''", "checkpoint_dir: it is empty$"),
        ("otel: localhost", "otel: 'localhost' is not the URL of an OTLP receiver"),
        ("restart_strategy: often", "restart_strategy: there is no restart strategy 'often'"),
        ("high_availability: 'zookeeper:zk'", "high_availability: 'zookeeper:zk' contains no address of ZooKeeper"),
        (
            "from_checkpoint: latest\nfresh: true",
            "a job can start from one checkpoint only: give from_checkpoint or fresh, not both",
        ),
        ("ring: 5\nmax_bytes: 7", "ring already limits the recording"),
        ("parallelism: [", "cannot be read: while parsing"),
        ("- parallelism", "contains no options: write each on its own line, such as parallelism: 4$"),
    ],
)
def test_errors_in_an_options_file_name_the_file(text: str, error: str, tmp_path: Path) -> None:
    file = tmp_path / "flykka.yaml"
    file.write_text(text)

    with pytest.raises(ConfigurationError, match=error) as refused:
        file_values(file)

    assert str(refused.value).startswith(str(file))


def test_errors_in_an_environment_variable_name_the_variable() -> None:
    with pytest.raises(ConfigurationError, match=r"^FLYKKA_PARALLELISM: 'many' is not a whole number from 1$"):
        environment_values({"FLYKKA_PARALLELISM": "many", "HOME": "/root"})
    assert environment_values({"FLYKKA_CACHE_DIR": "/tmp", "FLYKKA_PARALLELISM": "4"}) == {"parallelism": 4}


KUBERNETES = """
FLYKKA_PORT FLYKKA_PORT_8081_TCP FLYKKA_PORT_8081_TCP_ADDR FLYKKA_PORT_8081_TCP_PORT FLYKKA_PORT_8081_TCP_PROTO
FLYKKA_PORT_53_UDP FLYKKA_SERVICE_HOST FLYKKA_SERVICE_PORT FLYKKA_SERVICE_PORT_REST_API FLYKKA_JOBS_SERVICE_HOST
FLYKKA_JOBS_PORT
"""


def test_an_unknown_variable_causes_a_warning_unless_kubernetes_sets_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    warning = "FLYKKA_PARALELISM: unknown environment variable, which is ignored (did you mean FLYKKA_PARALLELISM?)"
    for variable in ("FLYKKA_PARALELISM", *KUBERNETES.split()):
        monkeypatch.setenv(variable, "tcp://10.0.0.7:8081")
    launch = Launch()

    launch.environment_options()
    launch.environment_options()

    assert capsys.readouterr().err == f"flykka: {warning}\n"
    assert len(unknown_variables({"FLYKKA_PORTS", "FLYKKA_HOST", "HOME"})) == 2


def test_an_option_may_require_an_option_from_any_level(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    options = Launch(LaunchOptions(values={"ring": 5})).environment_options()

    with pytest.raises(ConfigurationError, match="ring limits a recording: name its file, record"):
        options.cluster_settings()
    options.set_options({"record": "run.trace"})
    assert options.cluster_settings().record is not None


def test_start_locations_count_as_one_option() -> None:
    options = read_values({"from_savepoint": "/s", "allow_non_restored_state": True}, "here")

    assert merged(options, {"parallelism": 2}) == {**options, "parallelism": 2}
    assert merged(options, {"from_checkpoint": "latest"}) == {"from_checkpoint": "latest"}


def test_the_options_file_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "flykka.yaml").write_text("parallelism: 4\n")
    monkeypatch.chdir(tmp_path)
    launch = Launch()

    launch.environment_options()
    launch.environment_options()

    assert capsys.readouterr().err == f"flykka: options of {tmp_path / 'flykka.yaml'}\n"
