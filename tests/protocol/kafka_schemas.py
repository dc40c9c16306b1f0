"""Kafka's schema of a message: kafka-python carries the file, or it is put together from what kio made of the file."""

from __future__ import annotations

import dataclasses
import datetime
from functools import cache
from types import NoneType
from typing import Any

from kafka.protocol.schemas import load_json

from tests.protocol import oracle_kio

_TYPES = {"timedelta_i32": "int32", "timedelta_i64": "int64", "error_code": "int16"}


@cache
def schema_of(cls: Any) -> dict[str, Any]:
    """The schema of a message class of ours, as Kafka writes it in its file."""
    try:
        schema: dict[str, Any] = load_json(cls.__name__)
    except FileNotFoundError:
        schema = _from_kio(cls)
    return schema


def _from_kio(cls: Any) -> dict[str, Any]:
    """The same from kio's classes: one for each version, of which the newest has all the fields."""
    known = [version for version in range(100) if oracle_kio.knows(cls, version)]
    classes = [oracle_kio.entity(cls, version) for version in known]
    flexible = [version for version, theirs in zip(known, classes, strict=True) if theirs.__flexible__]
    return {
        "apiKey": classes[-1].__api_key__,
        "validVersions": f"{known[0]}-{known[-1]}",
        "flexibleVersions": f"{flexible[0]}+" if flexible else "none",
        "fields": _fields(dict(zip(known, classes, strict=True))),
    }


def _fields(classes: dict[int, Any]) -> list[dict[str, Any]]:
    by_name: dict[str, dict[int, dataclasses.Field[Any]]] = {}
    for version, theirs in sorted(classes.items(), reverse=True):  # the newest says the order
        for field in dataclasses.fields(theirs):
            by_name.setdefault(field.name, {})[version] = field
    return [_field(name, found) for name, found in by_name.items()]


def _field(name: str, found: dict[int, dataclasses.Field[Any]]) -> dict[str, Any]:
    """A field that is there in these versions. kio has durations where the file has milliseconds."""
    newest = found[max(found)]
    kind = newest.metadata.get("kafka_type", "")
    nested = {version: oracle_kio.nested_entity(field.type) for version, field in found.items()}
    item = _TYPES.get(kind, kind) or nested[max(found)].__name__
    parts = getattr(newest.type, "__args__", (newest.type,))
    is_array = any(getattr(part, "__origin__", None) is tuple for part in (newest.type, *parts))
    nullable = [version for version, field in found.items() if NoneType in getattr(field.type, "__args__", ())]
    if kind == "uuid":
        nullable = []  # None is zero in kio
    schema: dict[str, Any] = {
        "name": f"{name}_ms" if kind.startswith("timedelta") else name,
        "type": f"[]{item}" if is_array else item,
        "versions": f"{min(found)}-{max(found)}",
        "nullableVersions": f"{min(nullable)}-{max(nullable)}" if nullable else "none",
    }
    if nested[max(found)]:
        schema["fields"] = _fields(nested)
    if newest.default is None or (is_array and nullable and newest.default is dataclasses.MISSING):
        schema["default"] = "null"  # of an array of structs kio does not tell
    elif isinstance(newest.default, datetime.timedelta):
        schema["default"] = str(newest.default // datetime.timedelta(milliseconds=1))
    elif newest.default is not dataclasses.MISSING and not is_array:
        schema["default"] = str(newest.default)
    return schema
