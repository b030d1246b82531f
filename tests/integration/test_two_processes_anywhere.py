"""Tests two processes that run one job and cannot see each other, for several reasons: no row is published twice.

Each process runs the program. The first process reads half of the sales, then the second process is started, and then
the remaining sales arrive.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import pytest
from moto.server import ThreadedMotoServer
from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from tests.integration import arrivals, sales
from tests.layout.sources import ROOT

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(300)]

NOBODY = 65_534


@dataclass
class Place:
    """A folder that every user can access, with the input and the started processes.

    The processes read the file systems of this machine from the file `mounts`.
    """

    PROGRAM = """
import sys
from pathlib import Path
from flykka.actors.ownership import mounts
from tests.integration import arrivals
mounts._MOUNTS = Path("{mounts}")
arrivals.main(*sys.argv[1:])
"""

    folder: Path
    mounts: Path = Path("/proc/self/mountinfo")
    programs: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def arrived(self) -> Path:
        return self.folder / "arrivals"

    @property
    def output(self) -> Path:
        return self.folder / "output"

    def begin(
        self,
        *command: str,
        folder: Path | None = None,
        store: str | None = None,
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> subprocess.Popen[str]:
        """Start the program, which accesses the folder as `folder`; variables without a value get a private folder."""
        private = self.folder / f"private-{len(self.programs)}"
        private.mkdir()
        private.chmod(0o777)
        inside = folder or self.folder
        arguments = [str(inside / "arrivals"), str(inside / "output"), *([store] if store else [])]
        program = [*command, sys.executable, "-c", self.PROGRAM.format(mounts=str(self.mounts)), *arguments]
        environment = {**os.environ, "FLYKKA_CHECKPOINT_PERMISSIONS": "0777", "PYTHONDONTWRITEBYTECODE": "1"}
        environment.update({name: value or str(private) for name, value in variables.items()})
        begun = subprocess.Popen(
            program,
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            umask=0,
        )
        self.programs.append(begun)
        return begun

    def wait_checkpoint(self, program: subprocess.Popen[str]) -> None:
        """Wait until a program completes its next checkpoint."""
        assert program.stdout is not None
        line = program.stdout.readline()
        assert line, program.stderr.read() if program.stderr else ""

    def end(self) -> None:
        for program in self.programs:
            program.kill()
            program.communicate()
        shutil.rmtree(self.folder)


@pytest.fixture
def place(sales_files: Path) -> Iterator[Place]:
    shared = Place(Path(tempfile.mkdtemp(prefix="two-processes-", dir="/var/tmp")))
    shared.folder.chmod(0o777)
    arrivals.deliver_first_files(sales_files, shared.arrived)
    for file in (shared.arrived, *shared.arrived.iterdir()):
        file.chmod(0o755)
    yield shared
    shared.end()


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An object store whose address the processes read from their environment."""
    bucket = f"owned-by-one-{os.getpid()}"
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    monkeypatch.setenv("FSSPEC_S3_KEY", "any")
    monkeypatch.setenv("FSSPEC_S3_SECRET", "any")
    monkeypatch.setenv("FSSPEC_S3_ENDPOINT_URL", f"http://{host}:{port}")
    monkeypatch.setenv("FLYKKA_OWNER_LEASE", "3s")
    make = f"import fsspec; fsspec.filesystem('s3').mkdir('{bucket}')"
    subprocess.run([sys.executable, "-c", make], check=True)
    yield f"s3://{bucket}/checkpoints"
    server.stop()


def finish_programs(
    place: Place, sales_files: Path, spark: SparkSession, *ends: subprocess.Popen[str], is_copied: bool = False
) -> list[str]:
    """Deliver the remaining files, and return each process's standard error after the process has ended."""
    arrivals.deliver_remaining_files(sales_files, place.arrived)
    errors = [program.communicate(timeout=200)[1] for program in ends]
    expected = spark.read.parquet(str(sales_files)) if is_copied else sales.hourly_batch(spark, sales_files)
    assertDataFrameEqual(spark.read.parquet(str(place.output)), expected)
    return errors


def refusal_of_second(
    place: Place,
    sales_files: Path,
    spark: SparkSession,
    first: subprocess.Popen[str],
    second: subprocess.Popen[str],
    *,
    is_copied: bool = False,
) -> str:
    """Return the error that refused the second process, after the first process has published each row once."""
    refusal = second.communicate(timeout=120)[1]
    finish_programs(place, sales_files, spark, first, is_copied=is_copied)
    assert (first.returncode, second.returncode) == (0, 1)
    return refusal


@pytest.mark.parametrize("variable", ["XDG_RUNTIME_DIR", "TMPDIR", "FLYKKA_PID_DIR"])
def test_a_second_process_with_another_runtime_folder_is_refused(
    place: Place, sales_files: Path, spark: SparkSession, variable: str
) -> None:
    first = place.begin(variables={variable: ""})
    place.wait_checkpoint(first)

    second = place.begin(variables={variable: ""})

    refusal = refusal_of_second(place, sales_files, spark, first, second)
    assert f"process {first.pid} of user" in refusal


def test_a_second_process_of_another_user_is_refused(place: Place, sales_files: Path, spark: SparkSession) -> None:
    # The other user may read everything, including a Python installation in this user's home.
    rights = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
    other = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *rights)
    if os.getuid() != 0 or subprocess.run([*other, "true"], check=False).returncode != 0:
        pytest.skip("no process of another user can be started here")
    first = place.begin()
    place.wait_checkpoint(first)

    second = place.begin(*other, variables={"HOME": "", "TMPDIR": "", "XDG_RUNTIME_DIR": ""})

    refusal = refusal_of_second(place, sales_files, spark, first, second)
    assert f"process {first.pid} of user root" in refusal


def test_a_second_process_in_a_container_is_refused(
    place: Place, sales_files: Path, spark: SparkSession, tmp_path: Path
) -> None:
    inside = f'mount --bind {place.folder} {tmp_path} && exec "$@"'
    container = ("unshare", "--mount", "--uts", "--pid", "--fork", "--mount-proc", "sh", "-c", inside, "sh")
    if os.getuid() != 0 or subprocess.run([*container, "true"], check=False).returncode != 0:
        pytest.skip("no mount namespace can be made here")
    first = place.begin()
    place.wait_checkpoint(first)

    second = place.begin(*container, folder=tmp_path, variables={"TMPDIR": "", "XDG_RUNTIME_DIR": ""})

    refusal = refusal_of_second(place, sales_files, spark, first, second)
    assert f"process {first.pid} of user" in refusal


def test_a_second_process_without_high_availability_is_refused(
    place: Place, sales_files: Path, spark: SparkSession
) -> None:
    first = place.begin(variables={"FLYKKA_HIGH_AVAILABILITY": str(place.folder / "store")})
    place.wait_checkpoint(first)

    second = place.begin()

    refusal = refusal_of_second(place, sales_files, spark, first, second)
    assert f"process {first.pid} of user" in refusal


def test_a_second_process_with_high_availability_waits_for_the_first_to_end(
    place: Place, sales_files: Path, spark: SparkSession
) -> None:
    first = place.begin()
    place.wait_checkpoint(first)

    second = place.begin(variables={"FLYKKA_HIGH_AVAILABILITY": str(place.folder / "store")})
    assert second.stderr is not None
    waiting = next(line for line in second.stderr if "waiting" in line)
    _, refusal = finish_programs(place, sales_files, spark, first, second)

    assert f"process {first.pid} of user" in waiting
    assert (first.returncode, second.returncode) == (0, 1), refusal


def test_a_second_process_is_refused_if_checkpoints_are_in_an_object_store(
    place: Place, sales_files: Path, spark: SparkSession, store: str
) -> None:
    first = place.begin(store=store)
    place.wait_checkpoint(first)

    second = place.begin(store=store)

    refusal = refusal_of_second(place, sales_files, spark, first, second, is_copied=True)
    assert f"process {first.pid} of user" in refusal


def test_a_paused_and_replaced_owner_of_a_network_folder_publishes_no_file(
    place: Place, sales_files: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLYKKA_OWNER_LEASE", "3s")
    place.mounts = place.folder / "mountinfo"
    place.mounts.write_text(f"22 1 0:20 / {place.folder} rw - nfs4 server:/export rw\n")
    first = place.begin()
    place.wait_checkpoint(first)
    first.send_signal(signal.SIGSTOP)

    second = place.begin()
    place.wait_checkpoint(second)
    first.send_signal(signal.SIGCONT)
    lost, _ = finish_programs(place, sales_files, spark, first, second)

    assert (first.returncode, second.returncode) == (1, 0)
    assert "OwnershipLostError" in lost
