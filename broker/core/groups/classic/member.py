"""A member of a classic group."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import lru_cache
from typing import TypeAlias

from ottla.broker.core.effects import Asker
from ottla.broker.core.groups.group import MEMBER_BYTES, text_bytes
from ottla.protocol.messages.join_group import JoinGroupRequest

NO_ASSIGNMENT = b""

Protocols: TypeAlias = tuple[tuple[str, bytes], ...]
"""Name and metadata of each, in order of preference."""

MOST_SHARED_BYTES = 1_024
"""Protocols are shared between members if their metadata are no longer than this together."""


@lru_cache(maxsize=1024)
def _same(protocols: Protocols) -> Protocols:
    return protocols


def shared(protocols: Iterable[tuple[str, bytes]]) -> Protocols:
    """One object for equal protocols: most members of a group have the same."""
    found = tuple(protocols)
    return _same(found) if sum(len(metadata) for _, metadata in found) <= MOST_SHARED_BYTES else found


def protocols_of(request: JoinGroupRequest) -> Protocols:
    """The protocols that a JoinGroup offers."""
    return shared((protocol.name, protocol.metadata) for protocol in request.protocols)


def rebalance_timeout_of(request: JoinGroupRequest, ctx: Asker) -> int:
    """The rebalance timeout of a JoinGroup. Version 0 has none: the session timeout stands in for it."""
    return request.session_timeout_ms if ctx.api_version == 0 else request.rebalance_timeout_ms


def protocols_bytes(protocols: Sequence[tuple[str, bytes]]) -> int:
    """The bytes of memory that protocols take at most."""
    return sum(128 + text_bytes(name) + len(metadata) for name, metadata in protocols)


def protocol_names(protocols: Protocols) -> list[str]:
    """The names of protocols, each once, in order of preference."""
    return list(dict.fromkeys(name for name, _ in protocols))


@dataclass(slots=True, eq=False)
class Member:
    """A member: its identity, the protocols that it supports, its assignment, and its parked request.

    Attributes:
        protocols: (name, metadata) in order of preference.
        assignment: bytes of the leader, empty if there is none.
        parked_join, parked_sync: contexts of unanswered requests.
        is_new: it has not been in a generation yet, so it does not know its id and cannot heartbeat.
        session_deadline_ms: when the session ends. The purgatory may have an earlier time and looks here then: a
            heartbeat only stores this integer.
    """

    member_id: str
    _: KW_ONLY
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    assignment: bytes = NO_ASSIGNMENT
    parked_join: Asker | None = field(default=None, init=False)
    parked_sync: Asker | None = field(default=None, init=False)
    is_new: bool = field(default=False, init=False)
    session_deadline_ms: int = field(default=0, init=False)

    @property
    def held_bytes(self) -> int:
        """The bytes of memory that it takes, roughly."""
        texts = (self.member_id, self.group_instance_id, self.client_id, self.client_host, self.protocol_type)
        return MEMBER_BYTES + sum(map(text_bytes, texts)) + protocols_bytes(self.protocols) + len(self.assignment)

    @property
    def is_static(self) -> bool:
        """Whether it has a ``group.instance.id`` (KIP-345)."""
        return self.group_instance_id is not None

    def protocol_names(self) -> list[str]:
        """The names that it supports, each once, in order of preference."""
        return protocol_names(self.protocols)

    def metadata(self, protocol_name: str | None) -> bytes:
        """Its metadata for a protocol, empty if it does not support that."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        return b""

    def vote(self, candidates: Container[str]) -> str | None:
        """The candidate that it likes best."""
        for name, _ in self.protocols:
            if name in candidates:
                return name
        return None

    def successor(self, member_id: str) -> Member:
        """The member that takes its place under another id: everything but the parked requests goes along.

        Client id and host stay those of the old connection, as in Kafka.
        """
        return replace(self, member_id=member_id)

    def __repr__(self) -> str:
        return f"<Member {self.member_id}>"
