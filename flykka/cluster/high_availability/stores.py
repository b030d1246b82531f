"""Finds the store of high availability that a user names: a folder, or a place in ZooKeeper."""

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
    """A store in a folder of this machine."""

    directory: str


StoreSettings = FolderSettings | ZooKeeperSettings


def store_settings(said: str | PathLike[str] | ZooKeeperSettings | None) -> StoreSettings | None:
    """The settings that a user names: none, a folder, or ZooKeeper, also in the words of a command line.

    Raises:
        ProgramError: it is neither.
    """
    if said is None or isinstance(said, ZooKeeperSettings):
        return said
    if not isinstance(said, str | PathLike) or not os.fspath(said):
        raise ProgramError(f"high_availability is a folder, {_FORM}, or ZooKeeperSettings, not {said!r}")
    text = os.fspath(said)
    if text.startswith(f"{_ZOOKEEPER}:"):
        return _zookeeper(text)
    # An address is no path: who makes the store says what is wrong with it.
    return FolderSettings(directory=text if "://" in text else os.path.abspath(text))


def numbered(settings: StoreSettings, number: int) -> StoreSettings:
    """The store of an application's environment of this number, from 1: each has its own."""
    if number == 1:
        return settings
    match settings:
        case FolderSettings(directory=directory):
            return FolderSettings(directory=f"{directory}-{number}")
        case ZooKeeperSettings(path=path):
            return replace(settings, path=f"{path}-{number}")


def store_address(settings: StoreSettings | None) -> str:
    """The store as all of its users call it, and no other one; empty for none."""
    match settings:
        case None:
            return ""
        case FolderSettings(directory=directory):
            return os.path.realpath(directory.removeprefix("file://"))
        case ZooKeeperSettings(hosts=hosts, path=path):
            return f"{_ZOOKEEPER}://{','.join(sorted(hosts.split(',')))}{path}"


def checkpoint_directory(settings: StoreSettings) -> str:
    """The default folder for checkpoints: they outlive the driver as the store does."""
    match settings:
        case FolderSettings(directory=directory):
            return f"{directory}/checkpoints"
        case ZooKeeperSettings(storage_dir=storage_dir):
            return f"{storage_dir.rstrip('/')}/checkpoints"


def services_of(settings: StoreSettings | None) -> HighAvailabilityServices:
    """The services of this process. Raises `ClusterError` where the store cannot be used."""
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
    said = parse_qs(address.query)
    wrong = [name for name, values in said.items() if name not in _IN_ADDRESS or len(values) > 1]
    if not address.netloc or "storage_dir" not in said or wrong:
        raise ProgramError(
            f"{text!r} does not say where ZooKeeper is, and a folder for what is too large for it: {_FORM}"
        )
    settings = {name: values[0] for name, values in said.items()}
    if address.path not in ("", "/"):
        settings["path"] = address.path
    try:
        return ZooKeeperSettings(hosts=address.netloc, **settings)  # type: ignore[arg-type] # of texts only those that are texts
    except ValueError as refused:
        raise ProgramError(f"{text!r}: {refused}") from refused
