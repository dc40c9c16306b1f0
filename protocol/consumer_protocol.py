"""Subscriptions and assignments, which the protocol type ``consumer`` embeds in JoinGroup and SyncGroup.

For the coordinator these are opaque bytes, with one exception: it reads the topics of a subscription to know which
committed offsets are in use (KIP-211). Clients and the pipeline read everything. Both forms begin with an int16
version; a version above the newest known is read as that one and what follows is ignored, as Kafka's clients do.
"""

from __future__ import annotations

from struct import Struct, unpack_from
from struct import error as StructError
from typing import TypeVar

from ottla.protocol.errors import MalformedFrame
from ottla.protocol.schema import ArrayOf, Bytes, Int32, Message, String, message, struct, wire

PROTOCOL_TYPE = "consumer"
"""The protocol type whose metadata have the form of this module."""

NEWEST_VERSION = 3


@struct
class ConsumerTopicPartitions:
    """Partitions of one topic."""

    topic: str = wire(String)
    partitions: list[int] = wire(ArrayOf(Int32))


@message(versions=range(NEWEST_VERSION + 1))
class Subscription(Message):
    """The topics that a member wants, and from version 1 the partitions that it holds. KIP-429, KIP-792, KIP-881."""

    topics: list[str] = wire(ArrayOf(String))
    user_data: bytes | None = wire(Bytes, nullable_since=0, default=None)
    owned_partitions: list[ConsumerTopicPartitions] = wire(ArrayOf(ConsumerTopicPartitions), since=1)
    generation_id: int = wire(Int32, since=2, default=-1)
    rack_id: str | None = wire(String, since=3, nullable_since=3, default=None)


@message(versions=range(NEWEST_VERSION + 1))
class Assignment(Message):
    """The partitions that a member shall consume. All versions look the same."""

    assigned_partitions: list[ConsumerTopicPartitions] = wire(ArrayOf(ConsumerTopicPartitions))
    user_data: bytes | None = wire(Bytes, nullable_since=0, default=None)


_VERSION_AND_COUNT, _INT16, _INT32 = (Struct(form).unpack_from for form in (">hi", ">h", ">i"))

M = TypeVar("M", Subscription, Assignment)


def embedded_version(data: bytes) -> int:
    """The version that a subscription or assignment says it has.

    Raises:
        MalformedFrame: shorter than a version, or negative.
    """
    if len(data) < 2:
        raise MalformedFrame(f"{len(data)} bytes are too short for a version")
    if (version := int.from_bytes(data[:2], "big", signed=True)) < 0:
        raise MalformedFrame(f"negative version {version}")
    return version


def _decode(cls: type[M], data: bytes) -> M:
    version = min(embedded_version(data), NEWEST_VERSION)
    decoded: M = cls.layout(version).decode(data, 2)
    return decoded


def _encode(value: Message, version: int) -> bytes:
    return version.to_bytes(2, "big") + type(value).layout(version).encode(value)


def decode_subscription(data: bytes) -> Subscription:
    """Read a member's metadata.

    Raises:
        MalformedFrame: the bytes are not a subscription.
    """
    return _decode(Subscription, data)


def encode_subscription(subscription: Subscription, version: int = NEWEST_VERSION) -> bytes:
    """Write a subscription; fields that the version lacks are left out.

    Raises:
        UnsupportedVersion: not 0 to 3.
    """
    return _encode(subscription, version)


def decode_assignment(data: bytes) -> Assignment:
    """Read a member's assignment. Empty bytes mean no assignment and are the caller's case.

    Raises:
        MalformedFrame: the bytes are not an assignment.
    """
    return _decode(Assignment, data)


def assigned_partitions(data: bytes) -> list[tuple[str, int]]:
    """The partitions of a member's assignment, in its order: much faster than `decode_assignment`.

    Raises:
        MalformedFrame: the bytes are not an assignment.
    """
    found: list[tuple[str, int]] = []
    try:
        version, topics = _VERSION_AND_COUNT(data)
        at = 6
        for _ in range(topics):
            end = at + 2 + _INT16(data, at)[0]
            topic = data[at + 2 : end].decode()
            count = _INT32(data, end)[0]
            found += [(topic, partition) for partition in unpack_from(f">{count}i", data, end + 4)]
            at = end + 4 + 4 * count
        if version >= 0 and at + 4 + max(_INT32(data, at)[0], 0) == len(data):
            return found
    except (StructError, UnicodeDecodeError):
        pass
    given = decode_assignment(data).assigned_partitions  # something is unusual, or wrong
    return [(one.topic, partition) for one in given for partition in one.partitions]


def encode_assignment(assignment: Assignment, version: int = NEWEST_VERSION) -> bytes:
    """Write an assignment.

    Raises:
        UnsupportedVersion: not 0 to 3.
    """
    return _encode(assignment, version)


def subscribed_topics(data: bytes) -> list[str]:
    """The topics of a subscription, read as version 0, which is a prefix of every version.

    The coordinator uses this form so that a member with a newer or partly unreadable subscription still protects
    the offsets of its topics.

    Raises:
        MalformedFrame: even the prefix is unreadable.
    """
    embedded_version(data)
    decoded: Subscription = Subscription.layout(0).decode(data, 2)
    return decoded.topics
