"""A consumer group: its state as it is, its state as the log has it for certain, and what no record says."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar
from uuid import UUID

from ottla.broker.core.consumer_groups.facts import Fact, apply
from ottla.broker.core.consumer_groups.state import State
from ottla.broker.core.coordination.shard import Write
from ottla.broker.core.effects import Asker
from ottla.broker.core.groups.group import Group, group_bytes
from ottla.protocol.consumer_protocol import PROTOCOL_TYPE
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse

COMMITS_WITH_EPOCH = 9
"""From this OffsetCommit version on members of the consumer protocol may commit (KIP-848)."""

NEVER_CHECKED = -1
"""The version of topics that a group has gone by that is to look at them anew, whether they changed or not."""
MOST_BEHIND = 1_000
"""So many facts wait at most to be applied to what is durable: nobody may ever ask while there is always a write."""


@dataclass(slots=True, eq=False)
class Session:
    """The life of a member as the clock sees it.

    Attributes:
        member_id, session_timeout_ms, session_deadline_ms: see `HasSession`.
        rebalance_epoch: the epoch of the member when it was told to give partitions up.
        answer: to a heartbeat that says nothing new; it is made when it is first asked for.
    """

    member_id: str
    session_timeout_ms: int
    session_deadline_ms: int = 0
    rebalance_epoch: int = 0
    answer: ConsumerGroupHeartbeatResponse | None = None


@dataclass(slots=True, eq=False)
class ConsumerGroup(Group):
    """See the module.

    Attributes:
        state: with all that is on its way to the log; what members are told is of it.
        in_flight: the writes on their way, with what their records say, in the order of the log.
        sessions: by member id; that of a member which is gone stays until its deadline.
        checked_version: the version of the topics that the group was last held against; checked_hash: the metadata hash
            of what it subscribed to then. It is not that of its epoch while a regex is not resolved yet.
        resolving: the resolution of its regexes that is under way; asker: whose heartbeat asks for the next one.
        state_since_ms: since when it is in its state, as Unix time; None if that is not known.
        restless_since_ms: since when it is on its way, whatever became of its target; from its load on at most.
    """

    kind: ClassVar[str] = "consumer"

    state: State = field(default_factory=State)
    in_flight: dict[Write[Any], Sequence[Fact]] = field(default_factory=dict, init=False)
    sessions: dict[str, Session] = field(default_factory=dict, init=False)
    checked_version: int = field(default=NEVER_CHECKED, init=False)
    checked_hash: int = field(default=0, init=False)
    _durable: State = field(init=False)
    _behind: list[Fact] = field(default_factory=list, init=False)
    resolving: object = field(default=None, init=False)
    asker: Asker | None = field(default=None, init=False)
    state_since_ms: int | None = field(default=None, init=False)
    restless_since_ms: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._durable = self.state

    @property
    def durable(self) -> State:
        """What the log has for certain; the same object as ``state`` while nothing is on its way.

        It is brought up to date when somebody asks. Mostly nobody does before all is durable, and it is ``state`` then.
        """
        self._catch_up()
        return self._durable

    def _catch_up(self) -> None:
        _apply_all(self._durable, self._behind)
        self._behind.clear()

    # Writing

    def add(self, fact: Fact) -> None:
        """Let the state be as a record says that is about to be written.

        Raises:
            Contradiction: our own records contradict each other. `take_back` has to be called.
        """
        if self.state is self._durable:
            self.state = self.state.copy()
        apply(self.state, fact)

    def take_back(self) -> None:
        """Forget what was added since the last write."""
        self.state = self.durable
        if self.in_flight:
            self.state = self.durable.copy()
            for facts in self.in_flight.values():
                _apply_all(self.state, facts)

    def written(self, write: Write[Any], facts: Sequence[Fact]) -> None:
        """What was added since the last write is on its way."""
        self.in_flight[write] = facts

    def settled(self, write: Write[Any], error: ErrorCode) -> None:
        """A write is durable, or failed.

        A write that fails takes those after it along, as they were made on top of it (R2.44). The log has none of
        them, either. Nothing is to be done when their own outcomes come.
        """
        facts = self.in_flight.pop(write, None)
        if facts is None:
            assert error, "the log has what came after something that it has not"
        elif error:
            self.in_flight.clear()
            self.state = self.durable
            self.checked_version = NEVER_CHECKED  # R3.25
        elif self.in_flight:
            self._behind += facts
            if len(self._behind) > MOST_BEHIND:
                self._catch_up()
        else:
            self._durable = self.state
            self._behind.clear()

    # What others ask for

    @property
    def held_bytes(self) -> int:
        return group_bytes(self.group_id) + self.state.held_bytes

    @property
    def protocol_type(self) -> str:
        return PROTOCOL_TYPE

    @property
    def generation(self) -> int:
        return self.state.epoch

    @property
    def shown_state(self) -> str:
        return self.durable.group_state.value if self.durable.exists else ""

    @property
    def is_gone(self) -> bool:
        return not self.state.exists

    @property
    def member_count(self) -> int:
        return len(self.state.members)

    @property
    def is_empty(self) -> bool:
        return not self.state.members

    @property
    def has_writes(self) -> bool:
        return bool(self.in_flight)

    @property
    def has_sessions(self) -> bool:
        return False

    def session_of(self, member_id: str) -> Session | None:
        return self.sessions.get(member_id)

    def is_subscribed(self, topic: str) -> bool:
        counts = self.state.subscriptions
        return topic in counts.by_name or topic in counts.by_regex

    def expiry_rule(self) -> tuple[int | None, Container[str]] | None:
        counts = self.state.subscriptions
        return None, counts.by_name | counts.by_regex

    # Offsets

    def refuse_commit(
        self, member_id: str, group_instance_id: str | None, generation: int, api_version: int
    ) -> ErrorCode:
        """See the base. With STALE_MEMBER_EPOCH it remains to be seen which partitions are committed (7.1)."""
        if generation < 0 and not self.state.members:
            return ErrorCode.NONE
        if not self.state.exists:
            known = api_version >= COMMITS_WITH_EPOCH
            return ErrorCode.GROUP_ID_NOT_FOUND if known else ErrorCode.ILLEGAL_GENERATION
        member = self.state.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if member.classic is None and api_version < COMMITS_WITH_EPOCH:
            return ErrorCode.UNSUPPORTED_VERSION
        return ErrorCode.NONE if generation == member.epoch else ErrorCode.STALE_MEMBER_EPOCH

    def refuse_transactional_commit(self, member_id: str, group_instance_id: str | None, generation: int) -> ErrorCode:
        if generation == -1 and not member_id and group_instance_id is None:
            return ErrorCode.NONE
        error = self.refuse_commit(member_id, group_instance_id, generation, COMMITS_WITH_EPOCH)
        return ErrorCode.ILLEGAL_GENERATION if error is ErrorCode.GROUP_ID_NOT_FOUND else error

    def refuse_older(self, member_id: str, epoch: int, partitions: Iterable[tuple[UUID, int]]) -> ErrorCode:
        member = self.state.members[member_id]
        stale = ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION
        if epoch > member.epoch:
            return stale
        for topic_id, partition in partitions:
            since = member.assigned.get(topic_id, {}).get(partition)
            if since is None:
                since = member.pending.get(topic_id, {}).get(partition)
            if since is None or epoch < since:
                return stale
        return ErrorCode.NONE

    def awaited_by_fetches(self) -> list[Write[Any]]:
        return [*Group.awaited_by_fetches(self), *list(self.in_flight)[-1:]]

    def refuse_fetch(self, member_id: str | None, epoch: int, *, stable: bool) -> ErrorCode:
        if member_id is None:
            return ErrorCode.NONE if epoch < 0 else ErrorCode.UNKNOWN_SERVER_ERROR
        state = self.state if stable else self.durable
        if not state.exists:
            return ErrorCode.NONE
        member = state.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if epoch == member.epoch:
            return ErrorCode.NONE
        return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION


def _apply_all(state: State, facts: Iterable[Fact]) -> None:
    for fact in facts:
        apply(state, fact)
