"""Sets the fields of a frozen dataclass when it is made through their slots, in 60 % of the time.

What `dataclasses` writes for a frozen class goes through `object.__setattr__`, which looks each field up by its name. A
checkpoint makes a dozen values a task.
"""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any


def assemble_directly(cls: type[Any]) -> None:
    """Replace the initialiser of a frozen, slotted, keyword-only dataclass by one that takes the same arguments.

    A class that does more than to keep its arguments is left as it is.
    """
    declared = fields(cls)
    plain = all(field.init and field.kw_only and field.default_factory is MISSING for field in declared)
    if not declared or not plain or hasattr(cls, "__post_init__"):
        return
    names = [field.name for field in declared]
    known: dict[str, Any] = {f"_set_{name}": getattr(cls, name).__set__ for name in names}
    known |= {f"_default_{field.name}": field.default for field in declared if field.default is not MISSING}
    arguments = (
        field.name if field.default is MISSING else f"{field.name}=_default_{field.name}" for field in declared
    )
    body = "".join(f"    _set_{name}(self, {name})\n" for name in names)
    exec(f"def __init__(self, *, {', '.join(arguments)}):\n{body}", known)
    made = known["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    made.__module__ = cls.__module__
    made.__annotations__ = {**cls.__init__.__annotations__}
    cls.__init__ = made
