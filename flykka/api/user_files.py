"""Files, Python packages and parameters that an environment registers for its functions."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING

from flykka.errors import ProgramError
from flykka.runtime.secrets import remember_secrets
from flykka.spark_bridge.errors import UserFileError
from flykka.spark_bridge.program.call_site import call_site

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flykka.spark_bridge.program.prototype import SparkSession
    from flykka.spark_bridge.user_files.registered_files import RegisteredFiles


@dataclass(frozen=True, slots=True)
class UserFiles:
    """Registers files with their names and the calling line; `launch_parameters` override parameters of the program.

    The methods have the same names as in the environment, and raise `ProgramError` in the same cases.
    """

    files: RegisteredFiles
    session: SparkSession
    launch_parameters: Mapping[str, str]

    def add_python_file(self, path: str | PathLike[str]) -> None:
        with _refused():
            self.files.add_python(fspath(path), _call("add_python_file", path), self.session.sparkContext)

    def add_python_archive(self, path: str | PathLike[str], target_dir: str | None) -> None:
        name = Path(path).name if target_dir is None else target_dir
        call = _call("add_python_archive", path, _checked_name(name, "target directory of an archive"))
        with _refused():
            self.files.add_archive(fspath(path), name, call)

    def set_python_requirements(
        self, requirements: str | PathLike[str], cache_dir: str | PathLike[str] | None = None
    ) -> None:
        cache = None if cache_dir is None else fspath(cache_dir)
        call = _call("set_python_requirements", requirements)
        with _refused():
            self.files.add_requirements(fspath(requirements), cache, call, self.session.sparkContext)

    def register_cached_file(self, path: str | PathLike[str], name: str) -> None:
        call = _call("register_cached_file", path, _checked_name(name, "name of a cached file"))
        with _refused():
            self.files.add_cached_file(fspath(path), name, call)

    def set_global_job_parameters(self, parameters: Mapping[str, str]) -> None:
        wrong = [pair for pair in parameters.items() if not all(isinstance(each, str) for each in pair)]
        if wrong:
            raise ProgramError(f"global job parameters are texts by name, not {dict(wrong)!r}: write str(value)")
        remember_secrets(parameters)
        self.files.global_job_parameters = {**parameters, **self.launch_parameters}


@contextmanager
def _refused() -> Iterator[None]:
    try:
        yield
    except UserFileError as refused:
        raise ProgramError(str(refused)) from None


def _checked_name(name: object, what: str) -> str:
    if not isinstance(name, str) or not name.strip():
        raise ProgramError(f"the {what} must be a non-empty text, not {name!r}")
    return name


def _call(verb: str, path: str | PathLike[str], *others: str) -> str:
    """Format a call for errors: `register_cached_file('cities.csv', 'cities') (app.py:12)`."""
    return f"{verb}({', '.join(map(repr, (fspath(path), *others)))}) ({call_site()})"
