"""Options of what functions find: files, Python packages and parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from flykka.api.configuration.option import ConfigOption, OptionGroup
from flykka.api.configuration.readers import by_name, path, paths, paths_by_name

if TYPE_CHECKING:
    from flykka.api.user_files import UserFiles


def _each(register: Callable[[UserFiles, str], object]) -> Callable[[UserFiles, Iterable[str]], None]:
    def register_all(files: UserFiles, values: Iterable[str]) -> None:
        for value in values:
            register(files, value)

    return register_all


def _add_archive(files: UserFiles, said: str) -> None:
    archive, _, target = said.partition("#")
    files.add_python_archive(archive, target or None)


def _register_cached_files(files: UserFiles, said: Mapping[str, str]) -> None:
    for name, file in said.items():
        files.register_cached_file(file, name)


FUNCTION_OPTIONS = (
    ConfigOption(
        name="python_files",
        shape="PATH,...",
        read=paths,
        description="modules, folders of modules and packages that functions import, beside those that the app adds",
        default="none",
        group=OptionGroup.FUNCTIONS,
        register=_each(lambda files, file: files.add_python_file(file)),
        is_path=True,
    ),
    ConfigOption(
        name="python_archives",
        shape="FILE[#DIR],...",
        read=paths,
        description="archives that are unpacked for functions, under the name of the file or this one",
        default="none",
        group=OptionGroup.FUNCTIONS,
        register=_each(_add_archive),
        is_path=True,
    ),
    ConfigOption(
        name="python_requirements",
        shape="FILE",
        read=path,
        description="packages that are installed for functions",
        default="none",
        group=OptionGroup.FUNCTIONS,
        register=lambda files, requirements: files.set_python_requirements(requirements),
        is_path=True,
    ),
    ConfigOption(
        name="cached_files",
        shape="NAME=PATH,...",
        read=paths_by_name,
        description="files and folders that functions find by their names",
        default="none",
        group=OptionGroup.FUNCTIONS,
        register=_register_cached_files,
        is_path=True,
    ),
    ConfigOption(
        name="global_job_parameters",
        shape="NAME=TEXT,...",
        read=by_name,
        description="texts by name that every function reads; one that is said for the run wins over that of the app",
        default="none",
        group=OptionGroup.FUNCTIONS,
        register=lambda files, parameters: files.set_global_job_parameters(parameters),
    ),
)
