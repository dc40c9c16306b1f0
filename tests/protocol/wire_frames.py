"""Frames written slowly and independently, with a note of where every length, count and tag section stands.

This is a second encoder, from the declarations alone. Tests hold it against the first, and use its notes to put
hostile lengths and unknown tags wherever a peer could.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ottla.protocol.schema import ArrayOf, WireType
from ottla.protocol.structs import WireField

UNKNOWN_TAG = 77
Kind = Literal["string", "bytes", "count", "tags", "tag size"]


@dataclass(frozen=True)
class Mark:
    """A number in a frame that says how much follows."""

    kind: Kind
    path: str
    start: int
    end: int
    compact: bool
    nullable: bool


@dataclass
class Frame:
    """Bytes being written. ``unknown_tag_in`` names the struct that gets a tag nobody knows; ``*`` stands for all."""

    version: int
    flexible: bool
    unknown_tag_in: str = ""
    data: bytearray = field(default_factory=bytearray)
    marks: list[Mark] = field(default_factory=list)
    structs: list[str] = field(default_factory=list)

    def write_struct(self, obj: Any, path: str) -> None:
        if path not in self.structs:
            self.structs.append(path)
        here = [declared for declared in type(obj).__wire__ if declared.present(self.version)]
        for declared in here:
            if not declared.tagged(self.version):
                self.write_field(declared, getattr(obj, declared.name), f"{path}.{declared.name}")
        if self.flexible:
            self.write_tags([(d, getattr(obj, d.name)) for d in here if d.tagged(self.version)], path)

    def write_tags(self, tagged: list[tuple[WireField, Any]], path: str) -> None:
        sent = sorted((d.tag or 0, d, value) for d, value in tagged if value != d.fresh_default())
        unknown = self.unknown_tag_in in (path, "*")
        self.write_size("tags", path + ".tags", len(sent) + unknown, compact=True)
        for tag, declared, value in sent:
            inner = replace(self, data=bytearray(), marks=[])
            inner.write_field(declared, value, f"{path}.{declared.name}")
            self.data += varint(tag)
            self.write_size("tag size", f"{path}.{declared.name}", len(inner.data), compact=True)
            shift = len(self.data)
            self.marks += [replace(mark, start=mark.start + shift, end=mark.end + shift) for mark in inner.marks]
            self.data += inner.data
        if unknown:
            self.data += varint(UNKNOWN_TAG) + varint(3) + b"\xff\x80\x00"

    def write_field(self, declared: WireField, value: Any, path: str) -> None:
        compact = self.flexible and not declared.never_compact
        self.write_value(declared.type, value, path, compact, nullable=self.version >= declared.nullable_since)

    def write_value(self, declared: Any, value: Any, path: str, compact: bool, nullable: bool = False) -> None:
        if isinstance(declared, ArrayOf):
            self.write_size("count", path, -1 if value is None else len(value), compact, nullable)
            for item in value or ():
                self.write_value(declared.item, item, path + "[]", compact)
        elif not isinstance(declared, WireType):
            if nullable:
                self.data += b"\xff" if value is None else b"\x01"
            if value is not None:
                self.write_struct(value, path)
        elif declared.kind in ("string", "bytes", "records"):
            raw = value.encode() if isinstance(value, str) else value
            kind: Kind = "string" if declared.kind == "string" else "bytes"
            self.write_size(kind, path, -1 if raw is None else len(raw), compact, nullable)
            self.data += raw or b""
        elif declared.kind == "uuid":
            self.data += value.bytes
        else:
            self.data += struct.pack(">" + declared.kind, value)

    def write_size(self, kind: Kind, path: str, size: int, compact: bool, nullable: bool = False) -> None:
        start = len(self.data)
        if kind in ("tags", "tag size"):
            self.data += varint(size)
        elif compact:
            self.data += varint(size + 1)
        else:
            self.data += struct.pack(">h" if kind == "string" else ">i", size)
        self.marks.append(Mark(kind, path, start, len(self.data), compact, nullable))


def varint(value: int) -> bytes:
    """An unsigned varint (https://kafka.apache.org/protocol#protocol_types)."""
    groups = []
    while value > 127:
        groups.append(value % 128 + 128)
        value //= 128
    return bytes([*groups, value])


def written(obj: Any, version: int, unknown_tag_in: str = "") -> Frame:
    """``obj`` at a version, byte by byte."""
    frame = Frame(version, flexible=version >= type(obj).flexible_from, unknown_tag_in=unknown_tag_in)
    frame.write_struct(obj, type(obj).__name__)
    return frame
