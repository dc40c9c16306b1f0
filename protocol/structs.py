"""A declared field, and the leaf that reads and writes the fields of a class at a version."""

from __future__ import annotations

import dataclasses
from functools import cache
from io import BytesIO
from typing import Any, TypeVar

from ottla.protocol.errors import AnswerTooLarge
from ottla.protocol.primitives import (
    UNKNOWN_BYTE_ITEMS,
    ArrayLeaf,
    Fixed,
    Leaf,
    Sized,
    UuidLeaf,
    remaining,
    uvarint_bytes,
)

T = TypeVar("T")
INT32_MAX = (1 << 31) - 1
MAX_ANSWER_BYTES = 100 << 20
"""No answer is larger, but those with records, which have bounds of their own. It is as much as a request may be."""


@dataclasses.dataclass(slots=True, eq=False)
class WireType:
    """A type as a declaration names it; `leaf` gives its form at a version.

    ``default`` is the value of a field that is absent, and the type's zero value. With ``cut``, text that is too long
    for its length field loses its end.
    """

    kind: str
    default: Any
    cut: bool = False

    def leaf(self, version: int, *, flexible: bool, nullable: bool) -> Leaf:
        match self.kind:
            case "string":
                return Sized("h", compact=flexible, nullable=nullable, text=True, cut=self.cut)
            case "bytes":
                return Sized("i", compact=flexible, nullable=nullable, text=False)
            case "records":
                return Sized("i", compact=flexible, nullable=nullable, text=False, shared=True)
            case "uuid":
                return UuidLeaf()
            case code:
                return Fixed(code, self.default)


@dataclasses.dataclass(slots=True, eq=False)
class ArrayOf:
    """An array of a wire type or of a struct class.

    With ``repeats`` one object may stand in it many times, and in other arrays of the field: it is encoded once.
    """

    item: Any
    repeats: bool = False
    default: Any = dataclasses.field(default_factory=list)

    def leaf(self, version: int, *, flexible: bool, nullable: bool) -> Leaf:
        item = leaf_of(self.item, version, flexible)
        return ArrayLeaf(item, compact=flexible, nullable=nullable, repeats=self.repeats)


def leaf_of(declared: Any, version: int, flexible: bool, nullable: bool = False, *, is_tagged: bool = False) -> Leaf:
    """The leaf of a declared type (wire type, array or struct class) at a version."""
    if isinstance(declared, (WireType, ArrayOf)):
        return declared.leaf(version, flexible=flexible, nullable=nullable)
    return StructLeaf(declared, version, flexible, nullable=nullable, is_tagged=is_tagged)


@dataclasses.dataclass(slots=True, eq=False)
class WireField:
    """One field of a declaration; see `wire`."""

    name: str
    type: Any
    since: int
    until: int
    default: Any
    nullable_since: int
    tag: int | None
    tag_since: int
    never_compact: bool

    def present(self, version: int) -> bool:
        return self.since <= version <= self.until

    def tagged(self, version: int) -> bool:
        return self.tag is not None and version >= self.tag_since

    def leaf(self, version: int, flexible: bool) -> Leaf:
        compact = flexible and not self.never_compact
        nullable = version >= self.nullable_since
        return leaf_of(self.type, version, compact, nullable, is_tagged=self.tagged(version))

    def fresh_default(self) -> Any:
        """The default; a new object each time where it is mutable."""
        if isinstance(self.default, list):
            return []
        if isinstance(self.default, type):
            return self.default()
        return self.default

    def is_default(self, value: Any) -> bool:
        """True if a tagged field with this value is left out. Any empty sequence is the empty array."""
        if isinstance(self.default, list):
            return value is not None and not len(value)
        return bool(value == self.fresh_default())


@cache
def shared_default(cls: type[T]) -> T:
    """The default object of a struct, to be given where nobody will change it: encoders know it when they see it."""
    return cls()


class StructLeaf(Leaf):
    """The fields of a class at a version, in order, then (flexible) the tag buffer.

    A nullable struct is preceded by one byte: -1 for null, 1 for present. In a tag that is a varint, and 0 for null.
    """

    def __init__(
        self, cls: type, version: int, flexible: bool, *, nullable: bool = False, is_tagged: bool = False
    ) -> None:
        self.cls = cls
        self.flexible = flexible
        self.nullable = nullable
        self.is_tagged = is_tagged
        self.null = b"\0" if is_tagged else b"\xff"
        declared: tuple[WireField, ...] = cls.__wire__  # type: ignore[attr-defined]
        here = [field for field in declared if field.present(version)]
        self.fields = [(f.name, f.leaf(version, flexible)) for f in here if not f.tagged(version)]
        self.tagged = [(f, f.leaf(version, flexible)) for f in here if f.tagged(version)]
        self.tagged.sort(key=lambda pair: pair[0].tag or 0)
        self.absent = [f for f in declared if not f.present(version) or f.tagged(version)]
        self.minimum = 1 if nullable else sum(leaf.minimum for _, leaf in self.fields) + int(flexible)

    def parse(self, stream: BytesIO, context: Any, path: str) -> Any:
        if self.nullable:
            marker = self.take(stream, 1, path)[0]
            if not marker if self.is_tagged else marker >= 0x80:
                return None
        values = {name: leaf.parse(stream, context, f"{path}.{name}") for name, leaf in self.fields}
        if self.flexible:
            self._parse_tags(stream, context, path, values)
        return self.cls(**values)

    def _parse_tags(self, stream: BytesIO, context: Any, path: str, values: dict[str, Any]) -> None:
        known = {field.tag: (field.name, leaf) for field, leaf in self.tagged}
        count = self.read_uvarint(stream, f"{path}.tags")
        if count * 2 > remaining(stream):
            raise self.fail(f"{path}.tags", f"{count} tags announced, {remaining(stream)} bytes left")
        self.spend(context, count, f"{path}.tags")
        for _ in range(count):
            tag = self.read_uvarint(stream, f"{path}.tags")
            size = self.read_uvarint(stream, f"{path}.tags")
            data = self.take(stream, size, f"{path}.tags[{tag}]")
            if tag in known:
                name, leaf = known[tag]
                inner = BytesIO(data)
                values[name] = leaf.parse(inner, context, f"{path}.{name}")
                if remaining(inner):
                    raise self.fail(f"{path}.{name}", "tagged field shorter than its announced size")
            else:
                self.spend(context, size * UNKNOWN_BYTE_ITEMS, f"{path}.tags[{tag}]")

    def build(self, obj: Any, stream: BytesIO, context: Any, path: str) -> Any:
        if self.nullable:
            stream.write(self.null if obj is None else b"\x01")
            if obj is None:
                return None
        for name, leaf in self.fields:
            leaf.build(getattr(obj, name), stream, context, f"{path}.{name}")
        if self.flexible:
            tags = []
            for field, leaf in self.tagged:
                value = getattr(obj, field.name)
                if not field.is_default(value):
                    inner = BytesIO()
                    leaf.build(value, inner, context, f"{path}.{field.name}")
                    tags.append((field.tag, inner.getvalue()))
            stream.write(uvarint_bytes(len(tags)))
            for tag, data in tags:
                stream.write(uvarint_bytes(tag or 0) + uvarint_bytes(len(data)) + data)
        return obj


def has_records(leaf: Leaf) -> bool:
    """True if there are record batches in it."""
    match leaf:
        case Sized():
            return leaf.shared
        case ArrayLeaf():
            return has_records(leaf.item)
        case StructLeaf():
            return any(has_records(field) for _, field in leaf.fields)
    return False


def most_answered(leaf: StructLeaf) -> int:
    """The largest size of a response, length prefix included. With records it is all that a length can say."""
    return 4 + INT32_MAX if has_records(leaf) else MAX_ANSWER_BYTES


def answer_too_large(cls: type, most: int) -> AnswerTooLarge:
    """The error of an answer that is not given."""
    return AnswerTooLarge(f"{cls.__name__} of more than {most} bytes: ask for fewer things in one request")
