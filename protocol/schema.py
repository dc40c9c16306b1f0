"""Messages are declared once; a version's wire form is a construct object made from the declaration.

```python
@message(versions=range(0, 5), flexible_from=4)
class HeartbeatRequest:
    '''Say that a member of a group is alive.'''

    group_id: str = wire(String)
    generation_id: int = wire(Int32)
    member_id: str = wire(String)
    group_instance_id: str | None = wire(String, since=3, nullable_since=3, default=None)
```

The class becomes a slotted, keyword-only dataclass. ``HeartbeatRequest.layout(4)`` is its `Layout` at version 4: the
fields present there, in compact forms because 4 is flexible (KIP-482), then the tag buffer. A field that is absent
at a version reads as its default, so handlers see one shape whatever the version. ``parse`` and ``build`` of a layout
run the construct object; ``decode`` and ``encode`` run straight-line code made from it by `ottla.protocol.fused`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache, cached_property
from io import BytesIO
from struct import error as struct_error
from typing import Any, ClassVar, TypeVar, dataclass_transform

from construct import StreamError

from ottla.protocol.errors import AnswerTooLarge, MalformedFrame, UnsupportedVersion
from ottla.protocol.framing import Gathered
from ottla.protocol.primitives import (
    MAX_ITEMS,
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
FOREVER = 1 << 15
INT32_MAX = (1 << 31) - 1
PATH_BYTES = 16 << 10
"""Of a message that is refused and not longer than this, the path of the field that is wrong is found."""

MAX_ANSWER_BYTES = 100 << 20
"""No answer is larger, but those with records, which have bounds of their own. It is as much as a request may be."""


@dataclasses.dataclass(frozen=True)
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


@dataclasses.dataclass(frozen=True)
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


Int8 = WireType("b", 0)
Int16 = WireType("h", 0)
UInt16 = WireType("H", 0)
Int32 = WireType("i", 0)
UInt32 = WireType("I", 0)
Int64 = WireType("q", 0)
Float64 = WireType("d", 0.0)
Boolean = WireType("?", False)
Uuid = WireType("uuid", UuidLeaf.default)
String = WireType("string", "")
Words = WireType("string", "", cut=True)
"""The text of an error message. It may quote names, each of which may be as long as a string can be."""
Bytes = WireType("bytes", b"")
Records = WireType("records", b"")
"""Record batches: bytes on the wire. They are kept whole; `ottla.protocol.records` looks inside. Large ones
are decoded as a view into the frame and not copied."""


def leaf_of(declared: Any, version: int, flexible: bool, nullable: bool = False) -> Leaf:
    """The construct leaf of a declared type (wire type, array or struct class) at a version."""
    if isinstance(declared, (WireType, ArrayOf)):
        return declared.leaf(version, flexible=flexible, nullable=nullable)
    return StructLeaf(declared, version, flexible, nullable=nullable)


@dataclasses.dataclass(frozen=True)
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
        return leaf_of(self.type, version, compact, nullable=version >= self.nullable_since)

    def fresh_default(self) -> Any:
        """The default; a new object each time where it is mutable."""
        if isinstance(self.default, list):
            return []
        if isinstance(self.default, type):
            return self.default()
        return self.default

    def is_default(self, value: Any) -> bool:
        """Whether a tagged field with this value is left out. An empty array is one whatever sequence it is."""
        if isinstance(self.default, list):
            return value is not None and not len(value)
        return bool(value == self.fresh_default())


_UNSET: Any = object()


def wire(
    type: Any,
    *,
    since: int = 0,
    until: int = FOREVER,
    default: Any = _UNSET,
    nullable_since: int | None = None,
    tag: int | None = None,
    tag_since: int | None = None,
    never_compact: bool = False,
) -> Any:
    """Declare a field of a message or struct.

    Args:
        type: a wire type of this module, `ArrayOf` of one, or a class made by `struct`.
        since, until: the first and last version that has the field (both inclusive).
        default: its value where it is absent; by default the type's zero value.
        nullable_since: the first version at which it may be null.
        tag, tag_since: the tag number (KIP-482), and the first version at which the field is tagged.
        never_compact: keeps its classic form in flexible versions (only the client id of request headers).
    """
    if default is _UNSET:
        if isinstance(type, ArrayOf):
            default = []
        elif isinstance(type, WireType):
            default = type.default
        else:
            default = type
    return WireField(
        name="",
        type=type,
        since=since,
        until=until,
        default=default,
        nullable_since=FOREVER if nullable_since is None else nullable_since,
        tag=tag,
        tag_since=since if tag_since is None else tag_since,
        never_compact=never_compact,
    )


def _as_dataclass(cls: type[T]) -> type[T]:
    """Turn the `wire` attributes into dataclass fields and keep them as ``__wire__``."""
    fields = []
    for name in cls.__annotations__:
        if not isinstance(declared := cls.__dict__.get(name), WireField):
            continue
        wire_field = dataclasses.replace(declared, name=name)
        fields.append(wire_field)
        if isinstance(wire_field.default, (list, type)):
            factory = list if isinstance(wire_field.default, list) else wire_field.default
            setattr(cls, name, dataclasses.field(default_factory=factory))
        else:
            setattr(cls, name, wire_field.default)
    made = dataclasses.dataclass(slots=True, kw_only=True)(cls)
    made.__wire__ = tuple(fields)  # type: ignore[attr-defined]
    return made


@cache
def shared_default(cls: type[T]) -> T:
    """The default object of a struct, to be given where nobody will change it: encoders know it when they see it."""
    return cls()


# `wire` is not named as a field specifier: to type checkers every field then has a default, as it has.
@dataclass_transform(kw_only_default=True)
def struct(cls: type[T]) -> type[T]:
    """A part of a message; its fields' versions are the message's."""
    return _as_dataclass(cls)


class Message:
    """The interface of every message class. Use `message` to make one."""

    __slots__ = ()
    versions: ClassVar[range]
    flexible_from: ClassVar[int]
    max_items: ClassVar[int] = MAX_ITEMS
    __wire__: ClassVar[tuple[WireField, ...]]
    _layouts: ClassVar[dict[int, Layout]]

    @classmethod
    def layout(cls, version: int) -> Layout:
        """The message at one version; built once, then cached.

        Raises:
            UnsupportedVersion: the message has no such version.
        """
        layout = cls._layouts.get(version)
        if layout is None:
            if version not in cls.versions:
                raise UnsupportedVersion(f"{cls.__name__} has no version {version}")
            layout = cls._layouts[version] = Layout(cls, version)
        return layout


@dataclass_transform(kw_only_default=True)
def message(*, versions: range, flexible_from: int | None = None) -> Callable[[type[T]], type[T]]:
    """Declare a request, a response or a header.

    Args:
        versions: those whose wire form is known, e.g. ``range(0, 10)``.
        flexible_from: the first flexible version (KIP-482), None if there is none.
    """

    def decorate(cls: type[T]) -> type[T]:
        cls.versions = versions  # type: ignore[attr-defined]
        cls.flexible_from = FOREVER if flexible_from is None else flexible_from  # type: ignore[attr-defined]
        cls._layouts = {}  # type: ignore[attr-defined]
        return _as_dataclass(cls)

    return decorate


class StructLeaf(Leaf):
    """The fields of a class at a version, in order, then (flexible) the tag buffer.

    A nullable struct is preceded by one byte: -1 for null, 1 for present.
    """

    def __init__(self, cls: type, version: int, flexible: bool, *, nullable: bool = False) -> None:
        super().__init__()
        self.cls = cls
        self.flexible = flexible
        self.nullable = nullable
        declared: tuple[WireField, ...] = cls.__wire__  # type: ignore[attr-defined]
        here = [field for field in declared if field.present(version)]
        self.fields = [(f.name, f.leaf(version, flexible)) for f in here if not f.tagged(version)]
        self.tagged = [(f, f.leaf(version, flexible)) for f in here if f.tagged(version)]
        self.tagged.sort(key=lambda pair: pair[0].tag or 0)
        self.absent = [f for f in declared if not f.present(version) or f.tagged(version)]
        self.minimum = 1 if nullable else sum(leaf.minimum for _, leaf in self.fields) + int(flexible)

    def _parse(self, stream: BytesIO, context: Any, path: str) -> Any:
        if self.nullable and self.take(stream, 1, path)[0] >= 0x80:
            return None
        values = {name: leaf._parse(stream, context, f"{path}.{name}") for name, leaf in self.fields}
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
                values[name] = leaf._parse(inner, context, f"{path}.{name}")
                if remaining(inner):
                    raise self.fail(f"{path}.{name}", "tagged field shorter than its announced size")
            else:
                self.spend(context, size * UNKNOWN_BYTE_ITEMS, f"{path}.tags[{tag}]")

    def _build(self, obj: Any, stream: BytesIO, context: Any, path: str) -> Any:
        if self.nullable:
            stream.write(b"\xff" if obj is None else b"\x01")
            if obj is None:
                return None
        for name, leaf in self.fields:
            leaf._build(getattr(obj, name), stream, context, f"{path}.{name}")
        if self.flexible:
            tags = []
            for field, leaf in self.tagged:
                value = getattr(obj, field.name)
                if not field.is_default(value):
                    inner = BytesIO()
                    leaf._build(value, inner, context, f"{path}.{field.name}")
                    tags.append((field.tag, inner.getvalue()))
            stream.write(uvarint_bytes(len(tags)))
            for tag, data in tags:
                stream.write(uvarint_bytes(tag or 0) + uvarint_bytes(len(data)) + data)
        return obj


class Layout:
    """A message at one version.

    ``parse`` and ``build`` interpret the construct object; ``decode`` and ``encode`` are its fused twins, compiled
    at first use. They are held to give the same results and refuse the same bytes by property tests.
    """

    def __init__(self, cls: type, version: int) -> None:
        self.message = cls
        self.version = version
        self.flexible: bool = version >= cls.flexible_from  # type: ignore[attr-defined]
        self.max_items: int = cls.max_items  # type: ignore[attr-defined]
        self.construct = StructLeaf(cls, version, self.flexible)

    def parse(self, data: bytes, offset: int = 0) -> Any:
        """Decode by construct, ignoring bytes behind the message as Kafka does.

        Raises:
            MalformedFrame: with the path of the field that is wrong.
        """
        stream = BytesIO(data)
        stream.seek(offset)
        return self.construct._parse(stream, [self.max_items], self.message.__name__)

    def build(self, obj: Any) -> bytes:
        """Encode by construct.

        Raises:
            construct.StreamError: a value does not fit its field.
        """
        stream = BytesIO()
        self.construct._build(obj, stream, None, self.message.__name__)
        return stream.getvalue()

    def decode(self, data: bytes, offset: int = 0) -> Any:
        """Decode by fused code. Same results as `parse`; the same errors where the message is not very long."""
        return self.decoder(data, offset)

    def encode(self, obj: Any) -> bytes:
        """Encode by fused code. Same bytes as `build`.

        Raises:
            struct.error, AttributeError, TypeError: a value does not fit its field (a bug of the caller).
        """
        return self.encoder(obj)

    @cached_property
    def decoder(self) -> Callable[[bytes, int], Any]:
        """The function behind `decode`, compiled when first asked for; a hot path holds on to it."""
        from ottla.protocol.fused import fused_decoder

        fast = fused_decoder(self.construct, self.max_items)
        parse, name = self.parse, self.message.__name__

        def decode(data: bytes, offset: int) -> Any:
            try:
                return fast(data, offset)
            except (MalformedFrame, UnicodeDecodeError, IndexError, struct_error) as error:
                # The reference knows the path of the offending field; fused code only knows that there is one. It
                # takes up to ten times as long: nobody who sends garbage shall have that for megabytes.
                if len(data) - offset <= PATH_BYTES:
                    parse(data, offset)
                raise MalformedFrame(f"{name}: {error}") from None

        return decode

    @cached_property
    def encoder(self) -> Callable[[Any], bytes]:
        """The function behind `encode`, compiled when first asked for."""
        from ottla.protocol.fused import fused_encoder

        return fused_encoder(self.construct)

    def response_encoder(self, *, header_tags: bool, fused: bool = True) -> Callable[[Any, int], bytes | Gathered]:
        """A function ``(message, correlation_id) -> frame``: length, response header, message.

        Args:
            header_tags: response header version 1 (an empty tag section) rather than 0.
            fused: compiled code, which leaves large responses with records in pieces; else the construct reference.

        The function raises AnswerTooLarge; compiled code does so before it has put the answer together.
        """
        if fused:
            from ottla.protocol.fused import fused_response_encoder

            return fused_response_encoder(self.construct, header_tags)
        most = most_answered(self.construct)

        def encode(obj: Any, correlation_id: int) -> bytes:
            header = correlation_id.to_bytes(4, "big", signed=True) + (b"\0" if header_tags else b"")
            body = self.build(obj)
            if 4 + len(header) + len(body) > most:
                raise answer_too_large(self.message, most)
            return (len(header) + len(body)).to_bytes(4, "big") + header + body

        return encode

    def __repr__(self) -> str:
        return f"<Layout {self.message.__name__} v{self.version}>"


def has_records(leaf: Leaf) -> bool:
    """Whether there are record batches in it."""
    match leaf:
        case Sized():
            return leaf.shared
        case ArrayLeaf():
            return has_records(leaf.item)
        case StructLeaf():
            return any(has_records(field) for _, field in leaf.fields)
    return False


def most_answered(leaf: StructLeaf) -> int:
    """How large a response may be, its length prefix included: with records, as large as a length can say."""
    return 4 + INT32_MAX if has_records(leaf) else MAX_ANSWER_BYTES


def answer_too_large(cls: type, most: int) -> AnswerTooLarge:
    """The error of an answer that is not given."""
    return AnswerTooLarge(f"{cls.__name__} of more than {most} bytes: ask for fewer things in one request")


__all__ = [
    "ArrayOf", "Boolean", "Bytes", "Float64", "Int8", "Int16", "Int32", "Int64", "Layout", "Message", "Records",
    "StreamError", "String", "UInt16", "UInt32", "Uuid", "message", "shared_default", "struct", "wire",
]  # fmt: skip
