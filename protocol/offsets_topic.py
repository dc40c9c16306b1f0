"""Keys and values of ``__consumer_offsets``, for classic groups and their committed offsets.

Keys and values begin with an int16. In a key it is the type of the record, in a value the version of its layout. A
record without a value deletes what its key names. Versions 0 to 4 of both values are read; what is written is what
Kafka 4.3 writes: offsets as version 4, which names the topic's id (1 if they carry an expiry of their own, the one
version that can say so), and groups as version 3.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from functools import cache
from typing import NamedTuple, TypeVar
from uuid import UUID

from ottla.protocol.errors import MalformedFrame
from ottla.protocol.primitives import ZERO_UUID
from ottla.protocol.schema import ArrayOf, Bytes, Int32, Int64, Message, String, Uuid, message, struct, wire

OFFSET_VALUE_VERSION = 4
EXPIRING_OFFSET_VALUE_VERSION = 1
GROUP_VALUE_VERSION = 3

_M = TypeVar("_M", bound=Message)


class CoordinatorRecord(NamedTuple):
    """A record as it stands in the log; a value of None is a tombstone."""

    key: bytes
    value: bytes | None


class RecordType(enum.IntEnum):
    """The int16 that a key begins with. Only classic types are named; others are skipped by readers."""

    LEGACY_OFFSET = 0
    OFFSET = 1
    GROUP = 2


@message(versions=range(2))
class OffsetKey(Message):
    """Names a committed offset. Type 0 is only read."""

    group_id: str = wire(String)
    topic: str = wire(String)
    partition: int = wire(Int32)


@message(versions=range(2, 3))
class GroupKey(Message):
    """Names a classic group."""

    group_id: str = wire(String)


@message(versions=range(5), flexible_from=4)
class OffsetValue(Message):
    """A committed offset. -1 is "none" for the leader epoch and the expiry. KIP-211, KIP-320, KIP-848."""

    offset: int = wire(Int64)
    leader_epoch: int = wire(Int32, since=3, default=-1)
    metadata: str = wire(String)
    commit_timestamp: int = wire(Int64)
    expire_timestamp: int = wire(Int64, since=1, until=1, default=-1)
    topic_id: UUID = wire(Uuid, since=4, tag=0, default=ZERO_UUID)


@struct
class GroupMemberValue:
    """A member with the metadata of the chosen protocol and its assignment."""

    member_id: str = wire(String)
    group_instance_id: str | None = wire(String, since=3, nullable_since=3, default=None)
    client_id: str = wire(String)
    client_host: str = wire(String)
    rebalance_timeout: int = wire(Int32, since=1, default=-1)
    session_timeout: int = wire(Int32)
    subscription: bytes = wire(Bytes)
    assignment: bytes = wire(Bytes)


@message(versions=range(5), flexible_from=4)
class GroupValue(Message):
    """A generation of a classic group. An unset protocol type is written as an empty string."""

    max_items = 1 << 24  # the broker wrote it itself: what it could write it must read at start

    protocol_type: str | None = wire(String, nullable_since=0)
    generation: int = wire(Int32)
    protocol: str | None = wire(String, nullable_since=0, default=None)
    leader: str | None = wire(String, nullable_since=0, default=None)
    current_state_timestamp: int = wire(Int64, since=2, default=-1)
    members: list[GroupMemberValue] = wire(ArrayOf(GroupMemberValue))


@cache
def _key_encoder() -> Callable[[OffsetKey], bytes]:
    return OffsetKey.layout(1).encoder


@cache
def _value_encoder(version: int) -> Callable[[OffsetValue], bytes]:
    return OffsetValue.layout(version).encoder


def offset_key(group_id: str, topic: str, partition: int) -> bytes:
    """The key of a committed offset."""
    return b"\0\1" + _key_encoder()(OffsetKey(group_id=group_id, topic=topic, partition=partition))


def group_key(group_id: str) -> bytes:
    """The key of a classic group."""
    return b"\0\2" + GroupKey.layout(2).encode(GroupKey(group_id=group_id))


def record_type(key: bytes) -> int:
    """The int16 that the key begins with, known or not.

    Raises:
        MalformedFrame: the key is shorter than that.
    """
    if len(key) < 2:
        raise MalformedFrame(f"record key of {len(key)} bytes")
    return int.from_bytes(key[:2], "big", signed=True)


def decode_key(key: bytes) -> OffsetKey | GroupKey | None:
    """Read a key; None for a type that is not of classic groups, which readers skip.

    Raises:
        MalformedFrame: the bytes do not fit the type.
    """
    decoded: OffsetKey | GroupKey
    match record_type(key):
        case RecordType.LEGACY_OFFSET | RecordType.OFFSET as version:
            decoded = OffsetKey.layout(version).decode(key, 2)
        case RecordType.GROUP:
            decoded = GroupKey.layout(2).decode(key, 2)
        case _:
            return None
    return decoded


def decode_value(message_class: type[_M], value: bytes) -> _M:
    """Read a value of any version that its message has.

    Raises:
        MalformedFrame: another version, or bytes that do not fit.
    """
    if len(value) < 2:
        raise MalformedFrame(f"record value of {len(value)} bytes")
    version = int.from_bytes(value[:2], "big", signed=True)
    if version not in message_class.versions:
        raise MalformedFrame(f"{message_class.__name__} has no version {version}")
    decoded: _M = message_class.layout(version).decode(value, 2)
    return decoded


def encode_offset_value(value: OffsetValue, version: int | None = None) -> bytes:
    """Write a committed offset as version 4, or as 1 if it has an expiry of its own.

    Version 1 has no place for the leader epoch and the topic's id.
    """
    if version is None:
        version = OFFSET_VALUE_VERSION if value.expire_timestamp < 0 else EXPIRING_OFFSET_VALUE_VERSION
    return version.to_bytes(2, "big") + _value_encoder(version)(value)


def encode_group_value(value: GroupValue, version: int = GROUP_VALUE_VERSION) -> bytes:
    """Write a generation of a group, as version 3 unless told otherwise."""
    return version.to_bytes(2, "big") + GroupValue.layout(version).encode(value)
