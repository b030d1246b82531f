"""Files and parameters that an environment has registered for the functions of its jobs.

pip installs packages in the driver, once, and they are sent to the executors with the other files, while PyFlink
installs them on every worker. So executors need neither pip nor a network, a requirement that cannot be installed is
reported at the user's line before there is a job, and user functions that Spark calls itself (`F.udf`) can import the
packages too. Spark's workers need the driver's Python version in any case; for compiled packages they also need its
platform.
"""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from flykka.spark_bridge.errors import UserFileError
from flykka.spark_bridge.functions.job_resources import CachedFile, JobResources
from flykka.spark_bridge.user_files.distributed_files import put_on_path, take_off_path
from flykka.spark_bridge.user_files.job_files import JobFiles
from flykka.spark_bridge.user_files.staged_files import staged_files

if TYPE_CHECKING:
    from pyspark import SparkContext

_ZIPPED_PACKAGES = frozenset((".zip", ".egg", ".whl"))


class RegisteredFiles:
    """Copies of files, in the order of registration, and the job parameters.

    They apply to jobs submitted later. Functions are also opened when the program is built, so modules are on the path
    of this process as well. `call` is the registering call with the user's line, for errors.
    """

    def __init__(self) -> None:
        self.global_job_parameters: Mapping[str, str] = {}
        self._cached: dict[str, CachedFile] = {}
        self._on_path: list[str] = []
        self._contexts: list[SparkContext] = []

    @property
    def resources(self) -> JobResources:
        """Resources for functions that are tested in this process."""
        return JobResources(
            broadcast_variables=None,
            cached_files=dict(self._cached),
            global_job_parameters=self.global_job_parameters,
            find=lambda file: str(staged_files.path(file.unit)),
        )

    def of_job(self) -> JobFiles:
        units = tuple(dict.fromkeys((*self._on_path, *(file.unit for file in self._cached.values()))))
        return JobFiles(resources=self.resources, units=units, on_path=tuple(self._on_path))

    def add_cached_file(self, path: str, name: str, call: str) -> None:
        source = _existing(path, call)
        write = partial(shutil.copytree if source.is_dir() else shutil.copyfile, source)
        self._add_cached(name, call, write, label=source.name)

    def add_archive(self, path: str, name: str, call: str) -> None:
        source = _existing(path, call)
        self._add_cached(name, call, lambda folder: _unpack(source, folder, call), label=name)

    def add_python(self, path: str, call: str, context: SparkContext) -> None:
        source = _existing(path, call)
        if source.is_dir():
            write: Callable[[Path], object] = partial(shutil.copytree, source)
        elif source.suffix in _ZIPPED_PACKAGES:
            write = partial(_unpack_zip, source, call=call)
        elif source.suffix == ".py":
            write = partial(_copy_module, source)
        else:
            raise UserFileError(
                f"{call}: {source} is not a Python file: use a .py file, a folder, or a .zip, .egg or .whl file"
            )
        self._add_on_path(staged_files.add(source.stem, write), context)

    def add_requirements(self, requirements: str, cache: str | None, call: str, context: SparkContext) -> None:
        source = _existing(requirements, call)
        packages = None if cache is None else _existing(cache, call)
        self._add_on_path(staged_files.add("site-packages", lambda to: install(source, packages, to, call)), context)

    def close(self) -> None:
        """Release all files. Called when no job of the environment runs any more."""
        for context in self._contexts:
            take_off_path(context, self._on_path)
        for unit in self._on_path:
            _take_off_own_path(str(staged_files.path(unit)))
        for unit in (*self._on_path, *(file.unit for file in self._cached.values())):
            staged_files.release(unit)
        self._cached, self._on_path, self._contexts = {}, [], []

    def _add_cached(self, name: str, call: str, write: Callable[[Path], object], *, label: str) -> None:
        there = self._cached.get(name)
        if there is not None:
            raise UserFileError(f"{call}: the name {name!r} belongs to {there.registered}: give each a name of its own")
        self._cached[name] = CachedFile(name=name, unit=staged_files.add(label, write), registered=call)

    def _add_on_path(self, unit: str, context: SparkContext) -> None:
        if unit in self._on_path:
            staged_files.release(unit)
            return
        self._on_path.append(unit)
        put_on_path(context, [unit])
        self._contexts.append(context)
        # Near the front, as in the workers, but after the folder of the script.
        sys.path.insert(1, str(staged_files.path(unit)))
        importlib.invalidate_caches()


def _take_off_own_path(folder: str) -> None:
    """Remove a folder from the path of this process, and forget imported modules.

    Another environment may have a newer version of a module with the same name.
    """
    if folder in sys.path:
        sys.path.remove(folder)
    for name, module in [*sys.modules.items()]:
        if (getattr(module, "__file__", None) or "").startswith(f"{folder}/"):
            del sys.modules[name]
    importlib.invalidate_caches()


def _existing(path: str, call: str) -> Path:
    source = Path(path).absolute()
    if not source.exists():
        raise UserFileError(f"{call}: there is no file or folder {source}")
    return source


def _copy_module(source: Path, folder: Path) -> None:
    folder.mkdir()
    shutil.copyfile(source, folder / source.name)


def _unpack_zip(source: Path, folder: Path, *, call: str) -> None:
    try:
        with zipfile.ZipFile(source) as archive:
            archive.extractall(folder)
    except zipfile.BadZipFile as broken:
        raise UserFileError(f"{call}: {source} cannot be unpacked: {broken}") from None


def _unpack(source: Path, folder: Path, call: str) -> None:
    """Unpack an archive of any type that Python supports. A tar file writes nothing outside of the folder."""
    if zipfile.is_zipfile(source):
        _unpack_zip(source, folder, call=call)
        return
    try:
        with tarfile.open(source) as archive:
            archive.extractall(folder, filter="data")
    except tarfile.TarError as broken:
        raise UserFileError(f"{call}: {source} is not an archive that can be unpacked, zip or tar: {broken}") from None


_REQUIREMENT = re.compile(
    r"(?:No matching distribution found for|that satisfies the requirement|Invalid requirement:|"
    r"Failed building wheel for|Failed to build) ([^\n(]+)"
)


def install(requirements: Path, packages: Path | None, folder: Path, call: str) -> None:
    """Install a requirements file into a folder, only from `packages` if it is set. Blocks. Raises `UserFileError` with
    the requirement that pip names.
    """
    command = [sys.executable, "-m", "pip", "install", "--target", str(folder), "--requirement", str(requirements)]
    command += ["--ignore-installed", "--disable-pip-version-check", "--no-input", "--quiet"]
    if packages is not None:
        command += ["--no-index", "--find-links", str(packages)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserFileError(f"{call}: {requirements} cannot be installed{_reason(done.stdout + done.stderr)}")
    folder.mkdir(exist_ok=True)


def _reason(output: str) -> str:
    errors = [line.removeprefix("ERROR:").strip() for line in output.splitlines() if line.startswith("ERROR:")]
    requirements = _REQUIREMENT.findall(output)
    requirement = f", for the requirement {requirements[-1].strip()}" if requirements else ""
    return f"{requirement}: {'; '.join(errors) or output.strip()}"
