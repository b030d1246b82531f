"""`flykka ha` prints what an application left in its store, and deletes it only if the application has no leader."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from flykka.cli.main import main
from flykka.cluster.high_availability.file_system import FileSystemHaServices
from flykka.cluster.high_availability.store_contents import forget, leading, store_contents
from flykka.errors import ClusterError
from tests.flykka.cluster.high_availability.processes import Driver


def store_of_killed_application(folder: Path) -> str:
    with Driver(str(folder), module="tests.flykka.cluster.high_availability.application") as driver:
        assert driver.wait_line() == "began"
        assert driver.ask("run one") == "one has finished"
        driver.send(signal.SIGKILL)
    return str(folder / "store")


@pytest.mark.slow
def test_an_abandoned_run_is_shown_and_deleted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = store_of_killed_application(tmp_path)

    assert main(["ha", "show", store]) == 0
    before = capsys.readouterr().out.splitlines()
    assert main(["ha", "clean", store, "--yes"]) == 0
    forgotten = capsys.readouterr().out.splitlines()
    assert main(["ha", "show", store]) == 0
    after = capsys.readouterr().out.splitlines()

    assert before[0].endswith("(open: the application continues it when it is run again)")
    assert ": FINISHED, " in before[1]
    assert forgotten == [*before, "deleted: the application begins a new run"]
    assert len(after) == 1
    assert after[0].endswith("(concluded)")
    assert main(["ha", "clean", store, "--yes"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "there is nothing to delete"


@pytest.mark.slow
@pytest.mark.long
def test_an_interrupted_clean_up_is_repeated(tmp_path: Path) -> None:
    services = FileSystemHaServices(store_of_killed_application(tmp_path))
    with leading(services, 10.0) as store:
        run = services.last_run()
        assert run is not None
        store.conclude_run(run.run_id)
        half = store_contents(services)
        forget(store, run)

    assert (half.is_empty, store_contents(services).is_empty) == (False, True)
    services.close()


@pytest.mark.slow
def test_deletion_is_refused_while_a_driver_leads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Driver(str(tmp_path), module="tests.flykka.cluster.high_availability.application") as driver:
        assert driver.wait_line() == "began"
        assert driver.ask("run one") == "one has finished"

        assert main(["ha", "clean", str(tmp_path / "store"), "--yes"]) == 1
        assert main(["ha", "show", str(tmp_path / "store")]) == 0
        assert driver.ask("run two") == "two has finished"
    output = capsys.readouterr()
    assert "flykka ha: a driver leads in" in output.err
    assert "one" not in output.err


def test_without_confirmation_nothing_is_deleted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    services = FileSystemHaServices(str(tmp_path))
    with leading(services, 10.0) as store:
        run = store.run()
    services.close()
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda question: "")

    assert main(["ha", "clean", str(tmp_path)]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "nothing was deleted"
    services = FileSystemHaServices(str(tmp_path))
    assert store_contents(services).run is not None
    assert services.last_run().run_id == run  # type: ignore[union-attr] # as the line above says
    services.close()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["clean", "{}"], "there is no terminal for a confirmation: pass --yes"),
        (["show", "{}/not/there"], "there is no folder "),
        (["show", "zookeeper:zk"], "contains no address of ZooKeeper"),
    ],
)
def test_impossible_requests_are_usage_errors(
    arguments: list[str], error: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(["ha", *(each.format(tmp_path) for each in arguments)])

    assert left.value.code == 2
    assert error in capsys.readouterr().err


def test_a_store_without_leadership_is_named(tmp_path: Path) -> None:
    services, other = FileSystemHaServices(str(tmp_path)), FileSystemHaServices(str(tmp_path))
    with (
        leading(services, 10.0),
        pytest.raises(ClusterError, match=f"a driver leads in .*{tmp_path}"),
        leading(other, 0.1),
    ):
        pass
    services.close()
    other.close()
