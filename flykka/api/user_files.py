"""Files, Python packages and parameters for the functions of a program. PyFlink has these on its environment."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Self

from flykka.errors import ProgramError
from flykka.runtime.secrets import remember_secrets
from flykka.spark_bridge.errors import UserFileError
from flykka.spark_bridge.program.call_site import call_site

if TYPE_CHECKING:
    from flykka.api.configuration.environment_options import EnvironmentOptions
    from flykka.spark_bridge.operators.code_registry import CodeRegistry
    from flykka.spark_bridge.program.prototype import SparkSession
    from flykka.spark_bridge.user_files.registered_files import RegisteredFiles


class UserFiles(ABC):
    """Setters that return the environment, as Flink's do.

    What they name is copied at once, and every job that is executed from then on has it until it is over. Register
    before an operator is written that needs it: functions are opened there too.
    """

    _registry: CodeRegistry
    _options: EnvironmentOptions

    @property
    @abstractmethod
    def spark(self) -> SparkSession:
        """The Spark session."""

    def add_python_file(self, path: str | PathLike[str]) -> Self:
        """Let functions import a `.py` file, the modules of a folder, or a package in a `.zip`, `.egg` or `.whl` file.

        They find it in Spark's Python workers and in the driver, before what is installed there.

        Raises:
            ProgramError: it is not there, or none of these.
        """
        context = self.spark.sparkContext
        call = _call("add_python_file", path)
        return self._register(lambda files: files.add_python(fspath(path), call, context))

    def add_python_archive(self, path: str | PathLike[str], target_dir: str | None = None) -> Self:
        """Unpack a zip or tar file for functions, which find the folder by `ctx.get_cached_file(target_dir)`.

        Unless given, `target_dir` is the name of the file.

        Raises:
            ProgramError: it is not there or cannot be unpacked, or another file has the name.
        """
        name = Path(path).name if target_dir is None else target_dir
        call = _call("add_python_archive", path, _named(name, "target directory of an archive"))
        return self._register(lambda files: files.add_archive(fspath(path), name, call))

    def set_python_requirements(
        self, requirements_file_path: str | PathLike[str], requirements_cache_dir: str | PathLike[str] | None = None
    ) -> Self:
        """Install the packages of a requirements file for functions, which import them in workers and in the driver.

        They are installed by pip, here and now, into a folder that is sent to the workers. With
        `requirements_cache_dir` they come from this folder, as `pip download` fills it, and from nowhere else.

        Raises:
            ProgramError: the file or the folder is not there, or pip cannot install a requirement, which is named.
        """
        cache = None if requirements_cache_dir is None else fspath(requirements_cache_dir)
        path, context = fspath(requirements_file_path), self.spark.sparkContext
        call = _call("set_python_requirements", path)
        return self._register(lambda files: files.add_requirements(path, cache, call, context))

    def register_cached_file(self, path: str | PathLike[str], name: str) -> Self:
        """Give functions a file, or a folder, whose path on their machine is `ctx.get_cached_file(name)`.

        It is a copy for the job, to be read only.

        Raises:
            ProgramError: it is not there, or another file has the name.
        """
        call = _call("register_cached_file", path, _named(name, "name of a cached file"))
        return self._register(lambda files: files.add_cached_file(fspath(path), name, call))

    def set_global_job_parameters(self, parameters: Mapping[str, str]) -> Self:
        """Give functions texts by name: `ctx.global_job_parameters`. They take the place of those that were set before.

        Those that the launch says (`--global-job-parameters`) stay, by their names.

        Raises:
            ProgramError: a name or a value is no text.
        """
        wrong = [pair for pair in parameters.items() if not all(isinstance(each, str) for each in pair)]
        if wrong:
            raise ProgramError(f"global job parameters are texts by name, not {dict(wrong)!r}: write str(value)")
        remember_secrets(parameters)
        said = self._options.overrides.get("global_job_parameters", {})
        self._registry.files.global_job_parameters = {**parameters, **said}
        return self

    def _register(self, register: Callable[[RegisteredFiles], None]) -> Self:
        try:
            register(self._registry.files)
        except UserFileError as refused:
            raise ProgramError(str(refused)) from None
        return self


def _named(name: object, what: str) -> str:
    if not isinstance(name, str) or not name.strip():
        raise ProgramError(f"the {what} must be a text that names it, not {name!r}")
    return name


def _call(verb: str, path: str | PathLike[str], *others: str) -> str:
    """The call as errors show it: `register_cached_file('cities.csv', 'cities') (app.py:12)`."""
    return f"{verb}({', '.join(map(repr, (fspath(path), *others)))}) ({call_site()})"
