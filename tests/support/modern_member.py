"""A member of the consumer protocol that does as Java's client does, over whatever carries its heartbeats (KIP-848)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from tests.support.requests import request

Partition = tuple[UUID, int]

LOST = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)
"""Errors after which a member gives up what it has, and joins again."""


class ModernMember:
    """The state of a member, and its requests.

    Args:
        send: takes a heartbeat. Its answer is to be given to `learn`, before the next heartbeat.

    Attributes:
        owned: what it reads from. Partitions that it has to let go stay until `let_go`.
        assigned: what it was told last to have; None until it is told anything.
        is_fenced: another one has its instance id: it has given up for good.
    """

    def __init__(
        self,
        send: Callable[[Any], Any],
        group: str,
        member_id: str,
        *,
        instance: str | None = None,
        rebalance_ms: int = 60_000,
    ) -> None:
        self._send = send
        self.group = group
        self.member_id = member_id
        self.instance = instance
        self.rebalance_ms = rebalance_ms
        self.names: list[str] | None = ["t"]
        self.regex: str | None = None
        self.assignor: str | None = None
        self.epoch = 0
        self.owned: frozenset[Partition] = frozenset()
        self.assigned: frozenset[Partition] | None = None
        self.is_fenced = False
        self._said: dict[str, Any] = {}
        self._is_full = True

    # What happens to it

    def subscribe(self, names: list[str] | None, regex: str | None = None) -> None:
        """Subscribe to something else, from the next heartbeat on."""
        self.names, self.regex = names, regex

    def let_go(self) -> None:
        """What was to be given up is given up; what is new is taken."""
        if self.assigned is not None:
            self.owned = self.assigned

    @property
    def has_to_let_go(self) -> bool:
        return self.assigned is not None and not self.owned <= self.assigned

    def crash(self) -> None:
        """Forget everything but the member id, as Java's client keeps it."""
        self.epoch = 0
        self.owned, self.assigned = frozenset(), None
        self._is_full = True

    def reconnect(self) -> None:
        """The connection was lost, and with it maybe an answer: the next heartbeat says everything."""
        self._is_full = True

    # Heartbeats

    def heartbeat(self) -> Any:
        """Join, or stay; what did not change since it was last said is left out."""
        if self.assigned is not None and not self.has_to_let_go:
            self.owned = self.assigned
        says = {
            "rebalance_timeout_ms": self.rebalance_ms,
            "subscribed_topic_names": self.names,
            "subscribed_topic_regex": self.regex,
            "server_assignor": self.assignor,
            "topic_partitions": self._partitions(),
        }
        is_full = self._is_full or not self.epoch
        fields = says if is_full else {name: value for name, value in says.items() if value != self._said.get(name)}
        if "subscribed_topic_regex" in fields and self.regex is None and self._said.get("subscribed_topic_regex"):
            fields["subscribed_topic_regex"] = ""
        if "subscribed_topic_names" in fields and self.names is None and self._said.get("subscribed_topic_names"):
            fields["subscribed_topic_names"] = []
        self._said, self._is_full = says, False
        return self._ask(self.epoch, **fields)

    def leave(self, *, for_a_while: bool = False) -> Any:
        return self._ask(-2 if for_a_while else -1)

    def _ask(self, epoch: int, **fields: Any) -> Any:
        own = {
            "group_id": self.group,
            "member_id": self.member_id,
            "member_epoch": epoch,
            "instance_id": self.instance,
        }
        return self._send(request(ApiKey.CONSUMER_GROUP_HEARTBEAT, own | fields))

    def _partitions(self) -> list[dict[str, Any]]:
        topics: dict[UUID, list[int]] = {}
        for topic_id, partition in sorted(self.owned, key=str):
            topics.setdefault(topic_id, []).append(partition)
        return [{"topic_id": topic_id, "partitions": numbers} for topic_id, numbers in topics.items()]

    def learn(self, answer: Any) -> None:
        """Take an answer in."""
        if answer.error_code in LOST:
            self.crash()
        elif answer.error_code == ErrorCode.FENCED_INSTANCE_ID:
            self.crash()
            self.is_fenced = True
        elif answer.error_code:
            self._is_full = True
        elif answer.member_epoch < 0:
            self.crash()
        else:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.assigned = frozenset(
                    (topic.topic_id, partition)
                    for topic in answer.assignment.topic_partitions
                    for partition in topic.partitions
                )
