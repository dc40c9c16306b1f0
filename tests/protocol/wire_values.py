"""Every message class, and values for it: what the property tests of the codecs share."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from functools import cache
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from ottla.protocol.apis import Api, ApiKey, api
from ottla.protocol.schema import ArrayOf, WireType
from ottla.protocol.structs import WireField
from tests.protocol.header_messages import RequestHeader, ResponseHeader

APIS: list[Api] = [api(key) for key in ApiKey]
KAFKAS: list[Api] = [row for row in APIS if not row.key.is_private]
"""Those that Kafka has, too."""
MESSAGES: list[type] = [cls for row in APIS for cls in (row.request, row.response)]
HEADERS: list[type] = [RequestHeader, ResponseHeader]


def layouts(cls: Any) -> list[Any]:
    """A message class at each of its versions."""
    return [cls.layout(version) for version in cls.versions]


LAYOUTS: list[Any] = [layout for cls in MESSAGES + HEADERS for layout in layouts(cls)]


def examples(count: int) -> settings:
    """Hypothesis settings of a costly property: this many examples, thirty times as many in the long profile."""
    return settings(max_examples=count * (30 if os.environ.get("OTTLA_TESTS") == "long" else 1))


def name_of(cls: type) -> str:
    """A test id."""
    return cls.__name__


_INTEGERS = {"b": (8, True), "h": (16, True), "H": (16, False), "i": (32, True), "I": (32, False), "q": (64, True)}
_TEXT = st.sampled_from(["", "a", "group-1", "käse", "日本", "\x00", "x" * 126, "x" * 127, "y" * 300]) | st.text(
    max_size=5
)
_BYTES = st.sampled_from([b"", b"\x00", b"\xff" * 126, b"\x80" * 127, b"z" * 300]) | st.binary(max_size=6)
_UUIDS = st.sampled_from([uuid.UUID(int=0), uuid.UUID(int=1), uuid.UUID(int=2**128 - 1)]) | st.uuids()


def wire_type_values(declared: WireType) -> st.SearchStrategy[Any]:
    """Values of a wire type."""
    match declared.kind:
        case "string":
            return _TEXT
        case "bytes":
            return _BYTES
        case "records":
            return _BYTES | st.sampled_from([b"\x01" * 4095, b"\x02" * 4096, b"\x03" * 9000])
        case "uuid":
            return _UUIDS
        case "?":
            return st.booleans()
        case "d":
            return st.floats(allow_nan=False)
        case code:
            bits, signed = _INTEGERS[code]
            return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1) if signed else st.integers(0, (1 << bits) - 1)


Overrides = Mapping[str, st.SearchStrategy[Any]]


def field_values(field: WireField, overrides: Overrides) -> st.SearchStrategy[Any]:
    """Values of a field; None too if any version allows it. ``overrides`` are by field name."""
    declared = field.type
    values: st.SearchStrategy[Any]
    if field.name in overrides:
        return overrides[field.name]
    if isinstance(declared, ArrayOf):
        item = declared.item
        inner = wire_type_values(item) if isinstance(item, WireType) else objects(item, overrides)
        values = st.lists(inner, max_size=3)
    elif isinstance(declared, WireType):
        values = wire_type_values(declared)
    else:
        values = objects(declared, overrides)
    return st.none() | values if field.nullable_since < 1 << 15 else values


def objects(cls: Any, overrides: Overrides | None = None) -> st.SearchStrategy[Any]:
    """Objects with every field of every version filled; `at_version` cuts one down to a version."""
    overrides = overrides or {}
    return st.builds(cls, **{field.name: field_values(field, overrides) for field in cls.__wire__})


def zero(declared: Any) -> Any:
    """What stands for null where null is not allowed."""
    if isinstance(declared, ArrayOf):
        return []
    return declared.default if isinstance(declared, WireType) else declared()


def at_version(obj: Any, version: int) -> Any:
    """A copy of ``obj`` as a version can carry it: absent fields at their default, no null that it does not know."""
    values = {}
    for field in type(obj).__wire__:
        if not field.present(version):
            continue
        value = getattr(obj, field.name)
        if value is None and version < field.nullable_since:
            value = zero(field.type)
        elif isinstance(value, list):
            value = [at_version(item, version) if hasattr(item, "__wire__") else item for item in value]
        elif hasattr(value, "__wire__"):
            value = at_version(value, version)
        values[field.name] = value
    return type(obj)(**values)


@cache
def full(cls: Any, entries: int = 2) -> Any:
    """An object in which no field has its default, arrays have ``entries`` entries and no string is empty."""
    values = {field.name: _full_value(field.type, index, entries) for index, field in enumerate(cls.__wire__, start=1)}
    for field in cls.__wire__:
        if values[field.name] == field.default:
            values[field.name] = not field.default if isinstance(field.default, bool) else field.default + 1
    return cls(**values)


def _full_value(declared: Any, index: int, entries: int) -> Any:
    if isinstance(declared, ArrayOf):
        return [_full_value(declared.item, index + entry, entries) for entry in range(entries)]
    if not isinstance(declared, WireType):
        return full(declared, entries)
    match declared.kind:
        case "string":
            return "n" + chr(0xE0 + index)
        case "bytes" | "records":
            return bytes([0xFE, index])
        case "uuid":
            return uuid.UUID(int=index)
        case "?":
            return True
        case "d":
            return float(index)
        case _:
            return index
