"""Leaf types of the Kafka wire format, each with its checks.

construct's own building blocks are not used for what a peer controls: its ``VarInt`` has no bound and is quadratic
(400 kB of ``0x80`` stall it for seconds), and its compiled parsers accept negative lengths. Every leaf here checks
the length it reads against the bytes that remain before it touches them, and raises `MalformedFrame`.

A leaf is one wire form (``CompactString`` is another leaf than ``String``); `ottla.protocol.schema` picks the form
that a field has at a version. Formats: https://kafka.apache.org/protocol#protocol_types, compact ones: KIP-482.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from io import BytesIO
from typing import Any
from uuid import UUID

from ottla.protocol.errors import MalformedFrame

ZERO_UUID = UUID(int=0)
UVARINT_MAX_BYTES = 5

MAX_TEXT_BYTES = 0x7FFF
"""The most that the length of a classic string can say. Compact strings are held to it too, as in Kafka: what comes in
by a new version goes out by an old one."""

MAX_ITEMS = 1 << 17
"""The limit of array items and tagged fields of one message, all together.

An item of two bytes on the wire becomes an object of a hundred, and takes up to three microseconds: without this bound
a frame of 100 MB, which Kafka allows, could claim gigabytes, and a minute. Record batches are bytes here and are not
counted. Answers that list what a whole cluster has may hold more.
"""

UNKNOWN_BYTE_ITEMS = 2
"""As how many items a byte of an unknown tagged field counts: 64 KiB of them are all that a request may have."""


def uvarint(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """Read an unsigned varint of at most five bytes.

    Returns:
        The value, 0 to 2^32-1, and the position behind it.

    Raises:
        MalformedFrame: it is longer than five bytes, or exceeds 32 bits.
        IndexError: the data end within it.
    """
    value = shift = 0
    for _ in range(UVARINT_MAX_BYTES):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                raise MalformedFrame("unsigned varint exceeds 32 bits")
            return value, position
        shift += 7
    raise MalformedFrame("unsigned varint longer than five bytes")


def uvarint_bytes(value: int) -> bytes:
    """Encode a non-negative integer as an unsigned varint."""
    if value < 0x80:
        return SMALL_UVARINTS[value]
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


SMALL_UVARINTS = tuple(bytes((value,)) for value in range(128))


def remaining(stream: BytesIO) -> int:
    """The bytes of the frame that are still unread."""
    return stream.getbuffer().nbytes - stream.tell()


def unfit(text: str, path: str) -> Exception:
    """The error of a value that does not fit its field; construct's."""
    from construct import StreamError

    error: Exception = StreamError(text, path=path)
    return error


class Leaf:
    """A wire type. ``minimum`` is the smallest number of bytes that it can take; arrays are bounded by it.

    The context of ``parse`` is a list of one number: how many array items and tags the message may still have.
    """

    minimum: int = 1
    default: Any = None

    def parse(self, stream: BytesIO, context: Any, path: str) -> Any:
        raise NotImplementedError

    def build(self, obj: Any, stream: BytesIO, context: Any, path: str) -> Any:
        raise NotImplementedError

    def take(self, stream: BytesIO, size: int, path: str) -> bytes:
        """Read exactly ``size`` bytes or say where they were missing."""
        if size > (left := remaining(stream)):
            raise MalformedFrame(f"{path}: {size} bytes announced, {left} left")
        return stream.read(size)

    def read_uvarint(self, stream: BytesIO, path: str) -> int:
        start = stream.tell()
        try:
            value, end = uvarint(stream.getbuffer(), start)
        except IndexError:
            raise MalformedFrame(f"{path}: the frame ends within a varint") from None
        except MalformedFrame as error:
            raise MalformedFrame(f"{path}: {error}") from None
        stream.seek(end)
        return value

    def spend(self, context: list[int], items: int, path: str) -> None:
        """Count what the message may not have without bound."""
        context[0] -= items
        if context[0] < 0:
            raise self.fail(path, "more array items and tags than one message may hold")

    def fail(self, path: str, text: str) -> MalformedFrame:
        return MalformedFrame(f"{path}: {text}")


class Fixed(Leaf):
    """An integer, float or boolean of fixed size, big-endian. ``code`` is its letter in `struct`."""

    def __init__(self, code: str, default: Any = 0) -> None:
        self.code = code
        self.packer = struct.Struct(">" + code)
        self.minimum = self.packer.size
        self.default = default

    def parse(self, stream: BytesIO, context: Any, path: str) -> Any:
        return self.packer.unpack(self.take(stream, self.minimum, path))[0]

    def build(self, obj: Any, stream: BytesIO, context: Any, path: str) -> Any:
        try:
            stream.write(self.packer.pack(obj))
        except struct.error as error:
            raise unfit(f"{obj!r} does not fit: {error}", path) from None
        return obj


@lru_cache(maxsize=4096)
def uuid_of(raw: bytes) -> UUID:
    """An id from its sixteen bytes. The same few topics are named again and again, and a new object costs much."""
    return UUID(bytes=raw)


MOST_SHARED = 128
"""Longer texts are not shared."""


@lru_cache(maxsize=4096)
def _same(text: str) -> str:
    return text


def same_text(text: str) -> str:
    """One object for texts that are equal: what clients say again and again need not be kept as often."""
    return _same(text) if len(text) <= MOST_SHARED else text


class UuidLeaf(Leaf):
    """Sixteen bytes. Absent ids are the zero uuid, never None."""

    minimum = 16
    default = ZERO_UUID

    def parse(self, stream: BytesIO, context: Any, path: str) -> UUID:
        return UUID(bytes=self.take(stream, 16, path))

    def build(self, obj: UUID, stream: BytesIO, context: Any, path: str) -> UUID:
        stream.write(obj.bytes)
        return obj


def cut_text(data: bytes) -> bytes:
    """As much of UTF-8 text as a string can hold, in whole characters."""
    return data if len(data) <= MAX_TEXT_BYTES else data[:MAX_TEXT_BYTES].decode(errors="ignore").encode()


class Sized(Leaf):
    """Length, then that many bytes: the four forms of strings and of byte arrays.

    Args:
        length_code: ``h`` for classic strings, ``i`` for classic byte arrays; compact forms use a varint of length + 1.
        compact: the flexible form (KIP-482).
        nullable: whether -1 (compact: 0) means None. Any negative length of a nullable string reads as None.
        text: decode to str (UTF-8) or leave bytes.
        shared: where there are many bytes, the fused decoder gives a view into what it decodes.
        cut: text that is too long is cut when it is encoded, instead of refused.
    """

    def __init__(
        self, length_code: str, *, compact: bool, nullable: bool, text: bool, shared: bool = False, cut: bool = False
    ) -> None:
        self.cut = cut
        self.length_code = length_code
        self.compact = compact
        self.nullable = nullable
        self.text = text
        self.shared = shared
        self.minimum = 1 if compact else struct.calcsize(">" + length_code)
        self.default = None if nullable else ("" if text else b"")

    def parse(self, stream: BytesIO, context: Any, path: str) -> str | bytes | None:
        if self.compact:
            size = self.read_uvarint(stream, path) - 1
            if self.text and size > MAX_TEXT_BYTES:
                raise self.fail(path, f"a string of {size} bytes, {MAX_TEXT_BYTES} are allowed")
        else:
            prefix = self.take(stream, self.minimum, path)
            size = int.from_bytes(prefix, "big", signed=True)
        if size < 0:
            if self.nullable:
                return None
            raise self.fail(path, f"length {size} where null is not allowed")
        data = self.take(stream, size, path)
        if not self.text:
            return data
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise self.fail(path, "not valid UTF-8") from None

    def build(self, obj: Any, stream: BytesIO, context: Any, path: str) -> Any:
        if obj is None:
            if not self.nullable:
                raise unfit("None where null is not allowed", path)
            stream.write(b"\0" if self.compact else b"\xff" * self.minimum)
            return obj
        data = obj.encode() if self.text else obj
        if self.cut:
            data = cut_text(data)
        if self.compact:
            stream.write(uvarint_bytes(len(data) + 1))
        else:
            try:
                stream.write(struct.pack(">" + self.length_code, len(data)))
            except struct.error:
                raise unfit(f"{len(data)} bytes do not fit the length field", path) from None
        stream.write(data)
        return obj


class ArrayLeaf(Leaf):
    """Count, then items. The count is held against the bytes that remain before anything is allocated.

    Where an item ``repeats``, the fused encoder writes it once and takes the same bytes again.
    """

    def __init__(self, item: Leaf, *, compact: bool, nullable: bool, repeats: bool = False) -> None:
        self.item = item
        self.compact = compact
        self.nullable = nullable
        self.repeats = repeats
        self.minimum = 1 if compact else 4
        self.default = None if nullable else []

    def parse(self, stream: BytesIO, context: Any, path: str) -> list[Any] | None:
        if self.compact:
            count = self.read_uvarint(stream, path) - 1
        else:
            count = int.from_bytes(self.take(stream, 4, path), "big", signed=True)
        if count < 0:
            if self.nullable:
                return None
            raise self.fail(path, f"count {count} where null is not allowed")
        if count * max(1, self.item.minimum) > remaining(stream):
            raise self.fail(path, f"{count} items announced, {remaining(stream)} bytes left")
        self.spend(context, count, path)
        return [self.item.parse(stream, context, f"{path}[{index}]") for index in range(count)]

    def build(self, obj: Any, stream: BytesIO, context: Any, path: str) -> Any:
        if obj is None:
            if not self.nullable:
                raise unfit("None where null is not allowed", path)
            stream.write(b"\0" if self.compact else b"\xff\xff\xff\xff")
            return obj
        stream.write(uvarint_bytes(len(obj) + 1) if self.compact else struct.pack(">i", len(obj)))
        for index, item in enumerate(obj):
            self.item.build(item, stream, context, f"{path}[{index}]")
        return obj
