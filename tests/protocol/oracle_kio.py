"""kio as an oracle: its entities are dataclasses generated from Kafka's schemas, one module a version.

Fields are paired by position and then compared by name, so neither side can have one more. Where kio has richer types
than the wire (durations, points in time, an enum of error codes), values are turned into them here.
"""

from __future__ import annotations

import dataclasses
import datetime
import io
from functools import cache
from importlib import import_module
from typing import Any
from uuid import UUID

from hypothesis import strategies as st
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.serial import entity_reader, entity_writer

from ottla.protocol.apis import ApiKey
from ottla.protocol.structs import WireField

NAME = "kio"
_ZERO = UUID(int=0)
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MILLISECOND = datetime.timedelta(milliseconds=1)

# An enum in kio: only codes that it knows.
_CODES = st.sampled_from([int(code) for code in KioErrorCode])
# A point in time in kio: up to the year 9999, and whole seconds.
_TIMES = st.integers(0, 253_402_300_799).map(lambda seconds: seconds * 1000)

VALUES = {
    "error_code": _CODES,
    "partition_error_code": _CODES,
    "topic_config_error_code": _CODES,
    "log_append_time_ms": st.just(-1) | _TIMES,
    # kio cannot write the -1 of a transaction that has not begun.
    "transaction_start_time_ms": _TIMES,
    # A duration in kio, read and written as a float of seconds.
    "retention_time_ms": st.integers(-(1 << 45), 1 << 45),
    "session_lifetime_ms": st.integers(-(1 << 45), 1 << 45),
}
"""Values that kio can express, by field name."""


@cache
def entity(cls: Any, version: int) -> Any:
    """kio's class for a message of ours at a version. Raises ModuleNotFoundError if it has none."""
    name = cls.__name__
    if name.endswith("Header"):
        package, module = name.replace("H", "_h").lower(), "header"
    else:
        stem = name.removesuffix("Request").removesuffix("Response")
        key = next(key for key in ApiKey if key.module.replace("_", "") == stem.lower())
        package, module = key.module, name.removeprefix(stem).lower()
    return getattr(import_module(f"kio.schema.{package}.v{version}.{module}"), name)


def knows(cls: Any, version: int) -> bool:
    try:
        entity(cls, version)
    except ModuleNotFoundError:
        return False
    return True


def encode(obj: Any, version: int) -> bytes:
    """``obj`` written by kio."""
    cls: Any = type(obj)
    theirs = entity(cls, version)
    buffer = io.BytesIO()
    entity_writer(theirs)(buffer, _to_kio(obj, theirs, version))
    return buffer.getvalue()


def decode(cls: Any, version: int, data: bytes) -> Any:
    """Bytes read by kio, as an object of ours."""
    theirs, size = entity_reader(entity(cls, version))(data, 0)
    assert size == len(data)
    return _from_kio(theirs, cls, version)


def _pairs(cls: Any, theirs: Any, version: int) -> list[tuple[WireField, dataclasses.Field[Any]]]:
    here = [field for field in cls.__wire__ if field.present(version)]
    pairs = list(zip(here, dataclasses.fields(theirs), strict=True))
    for ours, other in pairs:
        # kio drops the unit of what it turns into a duration or a point in time.
        timed = other.metadata.get("kafka_type", "").startswith(("timedelta", "datetime"))
        assert other.name == (ours.name.removesuffix("_ms") if timed else ours.name), (cls, version)
    return pairs


def nested_entity(annotation: Any) -> Any:
    """The entity within an annotation such as ``tuple[Entity, ...] | None``."""
    if dataclasses.is_dataclass(annotation):
        return annotation
    for part in getattr(annotation, "__args__", ()):
        if (found := nested_entity(part)) is not None:
            return found
    return None


def _to_kio(obj: Any, theirs: Any, version: int) -> Any:
    values = {}
    for field, other in _pairs(type(obj), theirs, version):
        value = getattr(obj, field.name)
        kind = other.metadata.get("kafka_type", "")
        if isinstance(value, list):
            nested = nested_entity(other.type)
            value = tuple(_to_kio(item, nested, version) if nested else item for item in value)
        elif hasattr(value, "__wire__"):
            value = _to_kio(value, nested_entity(other.type), version)
        elif kind == "error_code":
            value = KioErrorCode(value)
        elif kind.startswith("timedelta"):
            value = datetime.timedelta(milliseconds=value)
        elif kind == "datetime_i64":
            value = None if value == -1 else _EPOCH + value * _MILLISECOND
        elif isinstance(value, UUID):
            value = value if value.int else None
        values[other.name] = value
    return theirs(**values)


def _from_kio(theirs: Any, cls: Any, version: int) -> Any:
    values = {}
    for field, other in _pairs(cls, type(theirs), version):
        value = getattr(theirs, other.name)
        kind = other.metadata.get("kafka_type", "")
        if isinstance(value, tuple):
            item = field.type.item
            value = [_from_kio(entry, item, version) if hasattr(item, "__wire__") else entry for entry in value]
        elif dataclasses.is_dataclass(value):
            value = _from_kio(value, field.type, version)
        elif isinstance(value, datetime.timedelta):
            value = value // _MILLISECOND
        elif kind == "datetime_i64":
            value = -1 if value is None else (value - _EPOCH) // _MILLISECOND
        elif kind == "uuid":
            value = value or _ZERO  # None is zero in kio
        values[field.name] = value
    return cls(**values)
