"""Messages are declared once; a version's wire form is a leaf made from the declaration.

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
run it as a construct object; ``decode`` and ``encode`` run straight-line code made from it by `ottla.protocol.fused`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache, cached_property, partial
from io import BytesIO
from struct import error as struct_error
from typing import Any, ClassVar, TypeVar, cast, dataclass_transform

from ottla.protocol.errors import MalformedFrame, UnsupportedVersion
from ottla.protocol.framing import Gathered
from ottla.protocol.primitives import MAX_ITEMS, UuidLeaf
from ottla.protocol.steps import Steps
from ottla.protocol.structs import ArrayOf, StructLeaf, WireField, WireType, answer_too_large, most_answered

T = TypeVar("T")
FOREVER = 1 << 15
PATH_BYTES = 16 << 10
"""Of a message that is refused and not longer than this, the path of the field that is wrong is found."""

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
    """Turn the `wire` attributes into slots, and keep what they declare as ``__wire__``.

    The methods of the dataclass are written when one of them is first needed. That takes a third of a millisecond,
    there are hundreds of these classes, and a decoder needs none of them.
    """
    fields = {name: field for name in cls.__annotations__ if isinstance(field := vars(cls).get(name), WireField)}
    kept = {name: value for name, value in vars(cls).items() if name not in fields and name not in _OF_DICTS}

    def finish() -> None:
        # What is made a dataclass is a class of this call's own: two threads may come at the same time.
        twin = type(cls.__name__, (), kept | {name: _default_of(field) for name, field in fields.items()})
        done = vars(dataclasses.dataclass(kw_only=True)(twin))
        for name in _WRITTEN:
            setattr(made, name, done[name])

    for name, field in fields.items():
        field.name = name
    unfinished = {name: _Unfinished(name, finish) for name in _WRITTEN}
    declared = {"__slots__": tuple(fields), "__wire__": tuple(fields.values()), "__match_args__": (), "__hash__": None}
    made: Any = type(cls.__name__, cls.__bases__, kept | declared | unfinished)
    return cast("type[T]", made)


_OF_DICTS = ("__dict__", "__weakref__")
_WRITTEN = ("__init__", "__repr__", "__eq__", "__dataclass_fields__", "__dataclass_params__")


def _default_of(field: WireField) -> Any:
    """The default as a dataclass takes it."""
    if isinstance(field.default, (list, type)):
        return dataclasses.field(default_factory=list if isinstance(field.default, list) else field.default)
    return field.default


class _Unfinished:
    """Stands for an attribute of a dataclass until it, or another one, is first asked for."""

    __slots__ = ("finish", "name")

    def __init__(self, name: str, finish: Callable[[], None]) -> None:
        self.name = name
        self.finish = finish

    def __get__(self, instance: Any, owner: type) -> Any:
        self.finish()
        return getattr(owner if instance is None else instance, self.name)


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
        self.leaf = StructLeaf(cls, version, self.flexible)

    @cached_property
    def construct(self) -> Any:
        """The construct object. The library is imported for it: what serves traffic needs only the leaf."""
        from ottla.protocol.reference import Reference

        return Reference(self.leaf)

    def parse(self, data: bytes, offset: int = 0) -> Any:
        """Decode by construct, ignoring bytes behind the message as Kafka does.

        Raises:
            MalformedFrame: with the path of the field that is wrong.
        """
        return self.construct._parse(_from(data, offset), [self.max_items], self.message.__name__)

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

        fast = fused_decoder(self.leaf, self.max_items)
        leaf, max_items, name = self.leaf, self.max_items, self.message.__name__

        def decode(data: bytes, offset: int) -> Any:
            try:
                return fast(data, offset)
            except (MalformedFrame, UnicodeDecodeError, IndexError, struct_error) as error:
                # The reference knows the path of the offending field; fused code only knows that there is one. It
                # takes up to ten times as long: nobody who sends garbage shall have that for megabytes.
                if len(data) - offset <= PATH_BYTES:
                    leaf.parse(_from(data, offset), [max_items], name)
                raise MalformedFrame(f"{name}: {error}") from None

        return decode

    @cached_property
    def decoder_in_steps(self) -> Callable[[bytes, int], Steps[Any]]:
        """What `decoder` does as steps, for long messages."""
        from ottla.protocol.fused import fused_decoder

        fast, name = fused_decoder(self.leaf, self.max_items, in_steps=True), self.message.__name__

        def decode(data: bytes, offset: int) -> Steps[Any]:
            try:
                return (yield from fast(data, offset))
            except (MalformedFrame, UnicodeDecodeError, IndexError, struct_error) as error:
                raise MalformedFrame(f"{name}: {error}") from None

        return decode

    @cached_property
    def encoder(self) -> Callable[[Any], bytes]:
        """The function behind `encode`, compiled when first asked for."""
        from ottla.protocol.fused import fused_encoder

        return fused_encoder(self.leaf)

    def response_encoder(self, *, header_tags: bool, fused: bool = True) -> Callable[[Any, int], bytes | Gathered]:
        """A function ``(message, correlation_id) -> frame``: length, response header, message.

        Args:
            header_tags: response header version 1 (an empty tag section) rather than 0.
            fused: compiled code, which leaves large responses with records in pieces; else the construct reference.

        The function raises AnswerTooLarge; compiled code does so before it has put the answer together.
        Compiled code has an attribute ``in_steps``: the function that does the same as steps.
        """
        if fused:
            from ottla.protocol.fused import fused_response_encoder

            write = cache(partial(fused_response_encoder, self.leaf, header_tags, in_steps=True))
            whole: Callable[[Any, int], bytes | Gathered] = fused_response_encoder(self.leaf, header_tags)
            whole.in_steps = lambda obj, correlation_id: write()(obj, correlation_id)  # type: ignore[attr-defined]
            return whole
        most = most_answered(self.leaf)

        def encode(obj: Any, correlation_id: int) -> bytes:
            header = correlation_id.to_bytes(4, "big", signed=True) + (b"\0" if header_tags else b"")
            body = self.build(obj)
            if 4 + len(header) + len(body) > most:
                raise answer_too_large(self.message, most)
            return (len(header) + len(body)).to_bytes(4, "big") + header + body

        return encode

    def __repr__(self) -> str:
        return f"<Layout {self.message.__name__} v{self.version}>"


def _from(data: bytes, offset: int) -> BytesIO:
    """The data, to be read from the offset on."""
    stream = BytesIO(data)
    stream.seek(offset)
    return stream


__all__ = [
    "ArrayOf", "Boolean", "Bytes", "Float64", "Int8", "Int16", "Int32", "Int64", "Layout", "Message", "Records",
    "String", "UInt16", "UInt32", "Uuid", "WireType", "message", "struct", "wire",
]  # fmt: skip
