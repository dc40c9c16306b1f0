"""Committing offsets, and reading what was committed, at the group's coordinator."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from ottla.clients.backoff import Tries
from ottla.clients.client import GROUP, Client
from ottla.clients.errors import (
    COORDINATOR_MOVED,
    CommitFailed,
    FencedInstance,
    KafkaError,
    KafkaTimeout,
    RebalanceInProgress,
    check,
    error_code,
    error_of,
)
from ottla.clients.group_effects import Sent
from ottla.clients.membership import Membership
from ottla.clients.options import ClientOptions
from ottla.clients.partitions import Offsets, committable, label, labels, numbers_by_topic
from ottla.clients.structs import OffsetAndMetadata
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from ottla.protocol.records import TopicPartition

_COORDINATOR_GONE = COORDINATOR_MOVED | {ErrorCode.REQUEST_TIMED_OUT}
_MEMBERSHIP_OVER = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID})

_OTHER_EPOCH = frozenset({ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})
"""The answers to a member of a group of the ``consumer`` protocol that has another epoch by now, and asks again."""


@dataclass(eq=False)
class GroupOffsets:
    """The offsets of one group.

    Args:
        member: in whose name offsets are committed.
        coordinator: waits for the coordinator until a deadline, and gives its broker.
        settled: waits until the member's state changes, or a deadline.
        settle: to be called after the member was told something.
    """

    _client: Client[ClientOptions]
    _member: Membership
    _coordinator: Callable[[float], Awaitable[int]]
    _settled: Callable[[float], Awaitable[None]]
    _settle: Callable[[], None]

    async def commit(self, offsets: Offsets, timeout_ms: float, *, wait: bool = True) -> None:
        """Commit.

        Args:
            wait: if a rebalance is under way, wait for its end, and commit if all the partitions are still owned.

        Raises:
            CommitFailed: the consumer is not, or no more, a member, or does not own the partitions any more.
            RebalanceInProgress: a rebalance is under way.
            KafkaTimeout: no coordinator, or no success, in time.
            KafkaError: the offsets are refused, e.g. OFFSET_METADATA_TOO_LARGE.
        """
        if not offsets:
            return
        tries = self._client.tries(timeout_ms)
        crossed = False
        while True:
            node_id = await self._coordinator(tries.deadline_ms)
            try:
                sent = self._member.identity()
            except RebalanceInProgress:
                if not wait or tries.over:
                    raise
                crossed = True
                await self._settled(tries.deadline_ms)
                continue
            if crossed:
                self._check_owned(offsets)
            failure = await self._try_commit(node_id, sent, offsets, tries)
            if failure is None:
                return
            # At the next epoch the coordinator takes offsets of partitions that have gone to others as well.
            crossed = crossed or failure.code is ErrorCode.STALE_MEMBER_EPOCH
            if not await tries.again():
                raise KafkaTimeout(f"not committed within {timeout_ms:.0f} ms: {failure}")

    def _check_owned(self, offsets: Offsets) -> None:
        taken = sorted(set(offsets) - set(self._member.owned)) if self._member.topics is not None else []
        if taken:
            raise CommitFailed(
                f"not committed: a rebalance gave {labels(taken)} to another member, which will read them again"
            )

    async def _try_commit(self, node_id: int, sent: Sent, offsets: Offsets, tries: Tries) -> KafkaError | None:
        """One try. None: committed. An error: try again. Raises what another try would not change."""
        request = OffsetCommitRequest(
            group_id=self._member.options.group,
            generation_id_or_member_epoch=sent.generation_id,
            member_id=sent.member_id,
            group_instance_id=self._member.options.group_instance_id if sent.member_id else None,
            topics=committable(offsets, OffsetCommitRequestTopic, OffsetCommitRequestPartition),
        )
        left = tries.request_timeout_ms(self._client.options.request_timeout_ms)
        try:
            answer = await self._client.send(node_id, request, OffsetCommitResponse, role=GROUP, timeout_ms=left)
        except KafkaError as error:
            if not error.retriable:
                raise
            self._lost(node_id, str(error))
            return error
        return self._outcome(node_id, sent, answer)

    def _outcome(self, node_id: int, sent: Sent, answer: OffsetCommitResponse) -> KafkaError | None:
        failure: KafkaError | None = None
        for topic in answer.topics:
            for partition in topic.partitions:
                if not partition.error_code:
                    continue
                code = error_code(partition.error_code)
                subject = f"commit {topic.name}-{partition.partition_index}"
                error = error_of(partition.error_code, subject, topic=topic.name)
                if code in _COORDINATOR_GONE:
                    self._lost(node_id, code.text)
                    return error
                if code is ErrorCode.REBALANCE_IN_PROGRESS:
                    self._member.request_rejoin("commit failed: a rebalance is in progress", self._client.now_ms())
                    self._settle()
                    raise RebalanceInProgress("not committed: a rebalance began; poll, then commit what is still owned")
                if code in _MEMBERSHIP_OVER:
                    self._membership_over(partition.error_code, sent)
                if not (code.retriable or code is ErrorCode.STALE_MEMBER_EPOCH):
                    raise error
                failure = error
        return failure

    def _membership_over(self, value: int, sent: Sent) -> None:
        """Tell the member, and raise what the user should know."""
        self._member.membership_refused(value, sent, "commit", self._client.now_ms())
        self._settle()
        code = error_code(value)
        if code is ErrorCode.FENCED_INSTANCE_ID:
            raise FencedInstance(
                f"not committed: another consumer has taken {self._member.options.group_instance_id!r}"
            )
        raise CommitFailed(
            f"not committed: {code.text}: the group has rebalanced without this consumer; poll to join it again",
            code,
        )

    def _lost(self, node_id: int, reason: str) -> None:
        self._member.coordinator_lost(node_id, reason, self._client.now_ms())
        self._settle()

    async def committed(
        self, partitions: Iterable[TopicPartition], timeout_ms: float
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The committed offsets; None where there is none.

        Raises:
            KafkaTimeout: no coordinator, or no answer, in time.
            KafkaError: access is denied.
        """
        wanted = list(partitions)
        tries = self._client.tries(timeout_ms)
        while wanted:
            node_id = await self._coordinator(tries.deadline_ms)
            request = offset_fetch_request(self._member.options.group, wanted, self._member.reader)
            left = tries.request_timeout_ms(self._client.options.request_timeout_ms)
            try:
                answer = await self._client.send(node_id, request, OffsetFetchResponse, role=GROUP, timeout_ms=left)
                return read_offsets(answer, wanted)
            except KafkaError as error:
                if not (error.retriable or error.code in _OTHER_EPOCH):
                    raise
                failure = error
            if failure.code in _COORDINATOR_GONE or failure.code is ErrorCode.NETWORK_EXCEPTION:
                self._lost(node_id, str(failure))
            if not await tries.again():
                raise KafkaTimeout(f"no committed offsets within {timeout_ms:.0f} ms: {failure}")
        return {}


def offset_fetch_request(
    group_id: str, partitions: Iterable[TopicPartition] | None, member: Sent | None = None
) -> OffsetFetchRequest:
    """Ask for a group's committed offsets, filled for the single form (to version 7) and the batch form.

    Args:
        partitions: None for all.
        member: the member of a group of the ``consumer`` protocol that asks; the coordinator checks its epoch.
    """
    wanted = numbers_by_topic(partitions or ())
    topics = None
    if partitions is not None:
        topics = [OffsetFetchRequestTopic(name=topic, partition_indexes=numbers) for topic, numbers in wanted.items()]
    group = OffsetFetchRequestGroup(group_id=group_id, topics=topics)
    if member is not None:
        group.member_id, group.member_epoch = member.member_id, member.generation_id
    return OffsetFetchRequest(
        group_id=group_id,
        topics=topics,
        groups=[group],
        require_stable=True,
    )


def read_offsets(
    answer: OffsetFetchResponse, wanted: Iterable[TopicPartition] = ()
) -> dict[TopicPartition, OffsetAndMetadata | None]:
    """The offsets in either form of the answer; None where nothing is committed.

    Raises:
        KafkaError: the group, or a partition of it, could not be read.
    """
    group = answer.groups[0] if answer.groups else answer
    check(group.error_code, "read committed offsets")
    found: dict[TopicPartition, OffsetAndMetadata | None] = dict.fromkeys(wanted)
    for topic in group.topics:
        for partition in topic.partitions:
            tp = TopicPartition(topic.name, partition.partition_index)
            if partition.error_code:
                subject = f"read the committed offset of {label(tp)}"
                raise error_of(partition.error_code, subject, topic=topic.name)
            if partition.committed_offset >= 0:
                found[tp] = OffsetAndMetadata(
                    partition.committed_offset, partition.metadata or "", partition.committed_leader_epoch
                )
    return found
