"""The data pipeline: what consumer groups did, as tables, on Spark.

It reads ``__consumer_offsets``, ``__ottla_group_events`` and the ends of logs, from a running broker (Ottla or Apache
Kafka) or from a directory of segments, and makes tables of them (`ottla.pipeline.tables`). Nothing here imports the
broker. Spark, Arrow and numpy come with the extra ``ottla[spark]``, and nothing of them is imported before it is used.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.pipeline.session import NoJava, session
    from ottla.pipeline.source import register
    from ottla.pipeline.udfs import decode_group_event, decode_group_metadata, decode_offset_commit

_HOMES = {
    "register": "source",
    "session": "session",
    "NoJava": "session",
    "decode_offset_commit": "udfs",
    "decode_group_metadata": "udfs",
    "decode_group_event": "udfs",
}
__all__ = ["NoJava", "decode_group_event", "decode_group_metadata", "decode_offset_commit", "register", "session"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


class _Room(ModuleType):
    """Importing a module puts it into its package, where one named like a function would hide that: `session`."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _HOMES or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Room
