"""The actor kernel: Akka's model on Pykka. `public_names` lists its API, which is loaded when first used.

Not here: anything about jobs. No other package imports pykka, and flykka imports each name from its own module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if __name__ != "flykka.runtime":
    raise ImportError(
        f"import this package as flykka.runtime, not as {__name__}: a second copy of every class would follow"
    )

if TYPE_CHECKING:
    from flykka.runtime.public_names import *  # noqa: F403

    __all__: list[str]


def __getattr__(name: str) -> Any:
    from flykka.runtime.lazy_names import load

    return load(__name__, name)


def __dir__() -> list[str]:
    from flykka.runtime.lazy_names import modules_of

    return sorted({*globals(), *modules_of(__name__)})
