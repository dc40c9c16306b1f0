"""kafka-python as an oracle: its messages are driven by Kafka's schema files, read at run time.

It has one class a message with a version as an argument; a field's codec comes from the schema.
"""

from __future__ import annotations

import inspect
import io
from functools import cache
from types import ModuleType
from typing import Any
from uuid import UUID

import kafka.protocol.admin
import kafka.protocol.api_header
import kafka.protocol.consumer
import kafka.protocol.metadata
import kafka.protocol.producer
import kafka.protocol.sasl
from hypothesis import strategies as st
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.schemas.fields.codecs import BitField

from ottla.protocol.structs import WireField

NAME = "kafka-python"
VALUES: dict[str, st.SearchStrategy[Any]] = {}
_ROOMS: list[ModuleType] = [
    kafka.protocol.admin,
    kafka.protocol.consumer,
    kafka.protocol.metadata,
    kafka.protocol.producer,
    kafka.protocol.sasl,
    kafka.protocol.api_header,
]
_RENAMED = {
    # kafka-python patches the schema: authorized operations are sets of bits there, under one name.
    "cluster_authorized_operations": "authorized_operations",
    "topic_authorized_operations": "authorized_operations",
}


@cache
def entity(name: str) -> Any:
    """kafka-python's class of that name, None if it has none."""
    return next((getattr(room, name) for room in _ROOMS if hasattr(room, name)), None)


def knows(cls: Any, version: int) -> bool:
    theirs = entity(cls.__name__)
    if theirs is None:
        return False
    first, last = theirs._valid_versions
    return bool(first <= version <= last)


def encode(obj: Any, version: int) -> bytes:
    """``obj`` written by kafka-python."""
    theirs = _to_kafka(obj, entity(type(obj).__name__), version)
    if issubclass(type(theirs), ApiMessage):
        return bytes(theirs.encode(version=version))
    return bytes(theirs.encode(flexible=version >= type(obj).flexible_from))


def decode(cls: Any, version: int, data: bytes) -> Any:
    """Bytes read by kafka-python, as an object of ours."""
    theirs = entity(cls.__name__)
    if not issubclass(theirs, ApiMessage):
        return _from_kafka(theirs.decode(io.BytesIO(data), flexible=version >= cls.flexible_from), cls, version)
    # Not theirs.decode: ApiVersionsResponse's reads every answer that has an error in version 0, as a client must.
    read = inspect.getattr_static(ApiMessage, "decode").__func__
    return _from_kafka(read(theirs, data, version=version), cls, version)


def _pairs(cls: Any, schema: Any, version: int) -> list[tuple[WireField, Any]]:
    here = [field for field in cls.__wire__ if field.present(version)]
    others = [field for field in schema.fields.values() if field.for_version_q(version)]
    pairs = list(zip(here, others, strict=True))
    for ours, other in pairs:
        assert other.name in (ours.name, _RENAMED.get(ours.name)), (cls, version)
    return pairs


def _codec(field: Any) -> str:
    return getattr(getattr(field, "_type", None), "__name__", "")


def _to_kafka(obj: Any, theirs: Any, version: int) -> Any:
    values = {}
    for field, other in _pairs(type(obj), theirs._struct, version):
        value = getattr(obj, field.name)
        if field.tagged(version) and field.is_default(value) and value is not None:
            continue  # kafka-python compares with its own default, which is None for structs and uuids
        if isinstance(value, list) and hasattr(field.type.item, "__wire__"):
            value = [_to_kafka(item, other.data_class, version) for item in value]
        elif hasattr(value, "__wire__"):
            value = _to_kafka(value, other.data_class, version)
        elif _codec(other) == "BitField":
            value = BitField.from_32_bit_field(value & 0xFFFFFFFF)
        values[other.name] = value
    return theirs(version=version, **values)


def _from_kafka(theirs: Any, cls: Any, version: int) -> Any:
    values = {}
    for field, other in _pairs(cls, theirs._struct, version):
        value = getattr(theirs, other.name)
        if field.tagged(version) and value is None and field.nullable_since > version:
            continue  # it was not there, and kafka-python's default for structs and uuids is None
        if isinstance(value, list) and hasattr(field.type.item, "__wire__"):
            value = [_from_kafka(item, field.type.item, version) for item in value]
        elif hasattr(field.type, "__wire__") and value is not None:
            value = _from_kafka(value, field.type, version)
        elif _codec(other) == "BitField":
            bits = BitField.to_32_bit_field({31} if value is None else value)
            value = bits - (1 << 32) if bits >> 31 else bits
        elif isinstance(value, memoryview):
            value = bytes(value)
        elif _codec(other) == "UUID":
            value = value or UUID(int=0)  # None is zero in kafka-python
        values[field.name] = value
    return cls(**values)
