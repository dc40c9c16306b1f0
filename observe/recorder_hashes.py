"""Makes group ids and client hosts unrecognizable in what the recorder keeps and passes on.

What stands in their place is keyed with random bytes that are never told, so that it cannot be found by guessing
names. It is the same for the same name as long as the broker runs. The one of a group falls into the same partition of
``__consumer_offsets`` as the group, so that what was recorded can be replayed.
"""

from __future__ import annotations

from dataclasses import replace as replaced
from hashlib import blake2s
from itertools import count
from typing import Any

from msgspec.structs import replace

from ottla.broker.core.consumer_groups.facts import MemberSaid
from ottla.broker.core.consumer_groups.records import fact_of, record_of
from ottla.broker.core.events import (
    ConsumerGroupLoaded,
    Event,
    FetchParked,
    GroupLoaded,
    LoggedRecord,
    RebalanceStarted,
    SettingsChanged,
)
from ottla.broker.core.events.reasons import Reason
from ottla.protocol.consumer_group_records import decode_consumer_group_key
from ottla.protocol.groups import DEFAULT_PARTITION_COUNT, coordinator_partition

MOST_NAMES = 10_000
"""So many are kept at hand; others are worked out again."""


class Hashes:
    """See the module.

    Args:
        key: up to 32 random bytes.
        group_ids, client_hosts: what to hide.

    Attributes:
        partition_count: of ``__consumer_offsets``.
    """

    def __init__(self, key: bytes, *, group_ids: bool, client_hosts: bool) -> None:
        self.group_ids, self.client_hosts = group_ids, client_hosts
        self.partition_count = DEFAULT_PARTITION_COUNT
        self._key = key
        self._groups: dict[str, str] = {}

    def __call__(self, event: Event) -> Event:
        """The event as it may be seen."""
        changes: dict[str, Any] = {}
        if self.group_ids:
            changes["group_id"] = self.group(event.group_id)
            if isinstance(event, SettingsChanged):
                changes["groups"] = {self.group(group_id): values for group_id, values in event.groups.items()}
            if isinstance(event, FetchParked):
                changes["wanted"] = [self.group(group_id) for group_id in event.wanted]
            if isinstance(event, RebalanceStarted):
                reason = Reason.read(event.reason)
                if reason is not None and reason.group:
                    changes["reason"] = str(replaced(reason, group=changes["group_id"]))
        if self.client_hosts:
            if "client_host" in event.__struct_fields__:
                changes["client_host"] = self.host(event.client_host)  # type: ignore[attr-defined]
            if isinstance(event, GroupLoaded):
                changes["loaded"] = [replace(one, client_host=self.host(one.client_host)) for one in event.loaded]
        if isinstance(event, ConsumerGroupLoaded):
            changes["records"] = [self._record(one) for one in event.records]
        return replace(event, **changes) if changes else event

    def _record(self, record: LoggedRecord) -> LoggedRecord:
        """A record of a consumer group, which names the group, and a member's host."""
        key = decode_consumer_group_key(record.key)
        assert key is not None
        fact = fact_of(key, record.value or None)
        if isinstance(fact, MemberSaid) and self.client_hosts:
            fact = MemberSaid(replace(fact.member, client_host=self.host(fact.member.client_host)))
        hidden = record_of(self.group(key.group_id), fact)
        return LoggedRecord(hidden.key, hidden.value or b"")

    def group(self, group_id: str) -> str:
        """The name that stands for a group id."""
        if not self.group_ids or not group_id:
            return group_id
        hidden = self._groups.get(group_id)
        if hidden is None:
            if len(self._groups) >= MOST_NAMES:
                self._groups.clear()
            hidden = self._groups[group_id] = self._find(group_id)
        return hidden

    def _find(self, group_id: str) -> str:
        wanted = coordinator_partition(group_id, self.partition_count)
        names = (f"group-{self._digest(f'{number}/{group_id}')}" for number in count())
        return next(name for name in names if coordinator_partition(name, self.partition_count) == wanted)

    def host(self, client_host: str) -> str:
        """The name that stands for a client's host."""
        return f"/host-{self._digest(client_host)}" if client_host else client_host

    def _digest(self, text: str) -> str:
        return blake2s(text.encode("utf-8", "surrogatepass"), key=self._key, digest_size=8).hexdigest()
