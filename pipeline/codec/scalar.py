"""Records of ``__consumer_offsets`` one at a time: what is rare, and why something cannot be read.

Kafka ignores bytes behind a key or a value. A pipeline that kept history on what it does not understand would not be
worth much, so here they are an error.
"""

from __future__ import annotations

from typing import TypeVar

from ottla.protocol.consumer_group_records import (
    ConsumerGroupKey,
    decode_consumer_group_key,
    encode_consumer_group_key,
)
from ottla.protocol.errors import MalformedFrame
from ottla.protocol.offsets_topic import (
    GroupKey,
    OffsetKey,
    decode_key,
    decode_value,
    group_key,
    offset_key,
    record_type,
)
from ottla.protocol.schema import Message

Key = OffsetKey | GroupKey
_M = TypeVar("_M", bound=Message)


class Unreadable(ValueError):
    """A record that goes to quarantine; the message is the reason."""


def key_of(key: bytes | None) -> Key:
    """Read a key to its end.

    Raises:
        Unreadable: it is none of a classic group.
    """
    if key is None:
        raise Unreadable("no key")
    try:
        decoded = decode_key(key)
        kind = record_type(key)
    except MalformedFrame as error:
        raise Unreadable(f"key: {error}") from None
    if decoded is None:
        raise Unreadable(f"key type {kind}, of nothing that is known here")
    if isinstance(decoded, GroupKey):
        again = group_key(decoded.group_id)
    else:
        again = offset_key(decoded.group_id, decoded.topic, decoded.partition)
    if len(again) != len(key):
        raise Unreadable(f"{len(key) - len(again)} bytes behind the key")
    return decoded


def consumer_key_of(key: bytes | None) -> ConsumerGroupKey:
    """Read a key of a group of the ``consumer`` protocol to its end.

    Raises:
        Unreadable: it is none.
    """
    if key is None:
        raise Unreadable("no key")
    try:
        decoded = decode_consumer_group_key(key)
    except MalformedFrame as error:
        raise Unreadable(f"key: {error}") from None
    if decoded is None:
        raise Unreadable(f"key type {record_type(key)}, of nothing that is known here")
    if (behind := len(key) - len(encode_consumer_group_key(decoded))) > 0:
        raise Unreadable(f"{behind} bytes behind the key")
    return decoded


def whole_value(message_class: type[_M], value: bytes) -> _M:
    """Read a value, of whatever record, to its end.

    Raises:
        Unreadable: it is none.
    """
    try:
        decoded = decode_value(message_class, value)
    except MalformedFrame as error:
        raise Unreadable(f"value: {error}") from None
    # What is written as it is usually written is whole; of the rest only what cannot spare its last byte.
    if message_class.layout(int.from_bytes(value[:2], "big")).encode(decoded) != value[2:]:
        try:
            decode_value(message_class, value[:-1])
        except MalformedFrame:
            return decoded
        raise Unreadable("bytes behind the value")
    return decoded
