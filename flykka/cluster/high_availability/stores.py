"""Parses the high-availability store that a user specifies: a folder, or ZooKeeper."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from os import PathLike
from urllib.parse import parse_qs, urlsplit

from flykka.actors.errors import HighAvailabilityError
from flykka.actors.high_availability.embedded import EmbeddedHaServices
from flykka.actors.high_availability.services import HighAvailabilityServices
from flykka.cluster.high_availability.settings import ZooKeeperSettings
from flykka.errors import ClusterError, ProgramError

_ZOOKEEPER = "zookeeper"
_FORM = "zookeeper://HOST:PORT[,HOST:PORT...]/PATH?storage_dir=DIR[&acl=creator&username=NAME&password_file=FILE]"
_IN_ADDRESS = ("storage_dir", "acl", "username", "password_file")


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderSettings:
    directory: str


StoreSettings = FolderSettings | ZooKeeperSettings


def store_settings(setting: str | PathLike[str] | ZooKeeperSettings | None) -> StoreSettings | None:
    """Parse the setting: None, a folder, or ZooKeeper, which may have the format of the command line.

    Raises:
        ProgramError: the setting has another format.
    """
    if setting is None or isinstance(setting, ZooKeeperSettings):
        return setting
    if not isinstance(setting, str | PathLike) or not os.fspath(setting):
        raise ProgramError(f"high_availability is a folder, {_FORM}, or ZooKeeperSettings, not {setting!r}")
    text = os.fspath(setting)
    if text.startswith(f"{_ZOOKEEPER}:"):
        return _zookeeper(text)
    # An address stays as it is. Opening the store reports errors in it.
    return FolderSettings(directory=text if "://" in text else os.path.abspath(text))


def numbered(settings: StoreSettings, number: int) -> StoreSettings:
    """Return the store of the application's environment `number`, counted from 1. Each has its own store."""
    if number == 1:
        return settings
    match settings:
        case FolderSettings(directory=directory):
            return FolderSettings(directory=f"{directory}-{number}")
        case ZooKeeperSettings(path=path):
            return replace(settings, path=f"{path}-{number}")


def store_address(settings: StoreSettings | None) -> str:
    """Return the canonical address of a store, which is equal for all users of the store, or "" for None."""
    match settings:
        case None:
            return ""
        case FolderSettings(directory=directory):
            return os.path.realpath(directory.removeprefix("file://"))
        case ZooKeeperSettings(hosts=hosts, path=path):
            return f"{_ZOOKEEPER}://{','.join(sorted(hosts.split(',')))}{path}"


def checkpoint_directory(settings: StoreSettings) -> str:
    match settings:
        case FolderSettings(directory=directory):
            return f"{directory}/checkpoints"
        case ZooKeeperSettings(storage_dir=storage_dir):
            return f"{storage_dir.rstrip('/')}/checkpoints"


def services_of(settings: StoreSettings | None) -> HighAvailabilityServices:
    try:
        match settings:
            case None:
                return EmbeddedHaServices()
            case FolderSettings(directory=directory):
                from flykka.cluster.high_availability.file_system import FileSystemHaServices

                return FileSystemHaServices(directory)
            case ZooKeeperSettings():
                from flykka.cluster.high_availability.zookeeper import ZooKeeperHaServices

                return ZooKeeperHaServices(settings)
    except HighAvailabilityError as unusable:
        raise ClusterError(str(unusable)) from unusable


def _zookeeper(text: str) -> ZooKeeperSettings:
    address = urlsplit(text)
    parameters = parse_qs(address.query)
    wrong = [name for name, values in parameters.items() if name not in _IN_ADDRESS or len(values) > 1]
    if not address.netloc or "storage_dir" not in parameters or wrong:
        raise ProgramError(f"{text!r} contains no address of ZooKeeper, or no folder for large values: {_FORM}")
    settings = {name: values[0] for name, values in parameters.items()}
    if address.path not in ("", "/"):
        settings["path"] = address.path
    try:
        return ZooKeeperSettings(hosts=address.netloc, **settings)  # type: ignore[arg-type] # of texts only those that are texts
    except ValueError as refused:
        raise ProgramError(f"{text!r}: {refused}") from refused
