"""Masks the secrets that this process was configured with, in texts about failures and in logs.

Code that receives settings from the user passes them to `remember_secrets`. Code that turns a live exception into text
passes the text through `masked`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from urllib.parse import quote

MASK = "***"

_SENSITIVE = re.compile(
    r"password|passwd|secret|token|credential|api[_.-]?key|access[_.-]?key|account[_.-]?key|service[_.-]?key"
    r"|private[_.-]?key|auth-params|basic[_.-]?auth|jaas|sas[_.-]",
    re.IGNORECASE,
)
"""The names of secret settings: of Flink (`GlobalConfiguration`), Spark (`spark.redaction.regex`) and object stores."""

_PUBLIC = re.compile(
    r"(provider|file|path|location|url|class|type|dir|enabled|algorithm|protocol|renewal[._a-z]*|interval)s?$",
    re.IGNORECASE,
)
"""The names of settings that only refer to secrets, such as the path of a password file or the class of a credentials
provider.
"""

_SHORTEST = 4
"""The minimum length of a secret. Masking shorter values would mask ordinary words."""

_NO_SECRETS = frozenset({"true", "false", "none", "null"})
_OF_URI = re.compile(r"(?<=://)[^\s/@:]*:[^\s/@]*@")
_QUOTED = re.compile(r"""password\s*=\s*(["'])(?P<value>.+?)\1""", re.IGNORECASE)


def masked_uri(text: str) -> str:
    """Return the text without the credentials that a URI in it may contain: `s3://***@bucket/folder`."""
    return _OF_URI.sub(f"{MASK}@", text)


class Secrets:
    def __init__(self) -> None:
        # Threads only add to this dict, and never remove from it.
        self._values: dict[str, None] = {}

    def remember(self, settings: Mapping[str, object]) -> None:
        for name, value in settings.items():
            for secret in _of(name, value):
                self._values.update(dict.fromkeys(_forms(secret)))

    def masked(self, text: str) -> str:
        # A secret may be part of another secret, so the longest is masked first.
        for value in sorted(self._values, key=len, reverse=True):
            text = text.replace(value, MASK)
        return masked_uri(text)


_secrets = Secrets()
masked = _secrets.masked
remember_secrets = _secrets.remember
"""Masks the secrets among these settings from now on, in failures and in flykka's logs."""


def _of(name: str, value: object) -> Iterator[str]:
    if not isinstance(value, str):
        return
    if _SENSITIVE.search(name) and not _PUBLIC.search(name):
        yield value
        for quoted in _QUOTED.finditer(value):
            yield quoted["value"]
    for credentials in _OF_URI.findall(value):
        yield credentials[:-1].partition(":")[2]


def _forms(secret: str) -> set[str]:
    """Return the spellings under which a secret may appear: plain, URL-quoted, and as a Python literal."""
    if len(secret) < _SHORTEST or secret.lower() in _NO_SECRETS:
        return set()
    return {secret, quote(secret, safe=""), repr(secret)[1:-1]}
