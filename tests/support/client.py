"""A client in few words: requests with the fields that matter, and answers that are checked to their last byte."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.groups import coordinator_partition
from ottla.protocol.internal_topics import OFFSETS_TOPIC
from ottla.protocol.offsets_topic import GroupKey, GroupValue, decode_key, decode_value
from ottla.protocol.records import Record, TopicPartition, decode_batch, iter_batches
from tests.support.batches import build_batch
from tests.support.peer import Peer
from tests.support.requests import (
    add_partitions_fields,
    commit_fields,
    create_fields,
    delete_records_fields,
    fetch_fields,
    heartbeat_fields,
    join_fields,
    leave_fields,
    list_offsets_fields,
    offset_fetch_fields,
    produce_fields,
    request,
    sync_fields,
)

IDS_SINCE = 13
"""From these Produce and Fetch versions on topics go by their ids."""
NOBODY = UUID(int=0xABCDEF)
_names = itertools.count(1)


def fresh(kind: str) -> str:
    """A name that no other test has."""
    return f"{kind}-{next(_names)}"


def batch(*values: bytes | None, key: bytes | None = b"k", timestamp_ms: int | None = None, **options: Any) -> bytes:
    """A batch of records with these values, written now unless told otherwise."""
    at = int(time.time() * 1000) if timestamp_ms is None else timestamp_ms
    return bytes(build_batch([Record(0, at, key, value, []) for value in values or (b"v",)], **options))


def values(records: bytes) -> list[bytes | None]:
    """The values of all records but those of markers."""
    batches = [data for header, data in iter_batches(bytes(records)) if not header.is_control]
    return [record.value for data in batches for record in decode_batch(data)]


def committed_values(data: bytes, aborted: list[tuple[int, int]]) -> tuple[list[bytes], int]:
    """The values that a reader of committed records keeps of some batches, and the offset at which it reads on.

    Args:
        aborted: producer ids and first offsets, as it was told.
    """
    waiting, skipped, seen, offset = list(aborted), set[int](), list[bytes](), 0
    for header, batch in iter_batches(data):
        while waiting and waiting[0][1] <= header.last_offset:
            skipped.add(waiting.pop(0)[0])
        if header.is_control:
            skipped.discard(header.producer_id)
        elif header.producer_id not in skipped:
            seen += [record.value or b"" for record in decode_batch(batch)]
        offset = header.last_offset + 1
    return seen, offset


class Client(Peer):
    """A connection; every method sends one request and reads its answer unless it says otherwise."""

    def call(self, key: ApiKey, version: int, /, **fields: Any) -> Any:
        return self.ask(key, version, request(key, fields))

    def start(self, key: ApiKey, version: int, /, **fields: Any) -> None:
        """Send; the answer is to be read with `answer`."""
        self.send(key, version, request(key, fields))

    # Topics and their logs

    def create(self, topic: str, partitions: int = 1, **configs: str) -> str:
        """A topic with these settings; ``_`` stands for ``.`` in their names."""
        settings = {name.replace("_", "."): value for name, value in configs.items()}
        answer = self.call(ApiKey.CREATE_TOPICS, 7, **create_fields({topic: partitions}, configs=settings))
        assert answer.topics[0].error_code == 0, answer
        return topic

    def topic(self, partitions: int = 1, **configs: str) -> str:
        return self.create(fresh("topic"), partitions, **configs)

    def metadata(self, *topics: str, version: int = 12, create: bool = False) -> Any:
        """Of these topics, or of all."""
        rows = [{"name": topic} for topic in topics] or None
        return self.call(ApiKey.METADATA, version, topics=rows, allow_auto_topic_creation=create)

    def topic_id(self, topic: str) -> UUID:
        """The id of a topic, or one that nobody has."""
        told = self.metadata(topic).topics[0]
        return NOBODY if told.error_code else UUID(bytes=told.topic_id.bytes)

    def produce(
        self,
        topic: str,
        data: bytes | None = None,
        version: int = 9,
        *,
        partition: int = 0,
        acks: int = -1,
        transactional_id: str | None = None,
    ) -> Any:
        """Produce, by default one record; gives the partition's part of the answer."""
        fields = produce_fields(topic, batch() if data is None else data, partition, acks, transactional_id)
        if version >= IDS_SINCE:
            fields["topic_data"][0]["topic_id"] = self.topic_id(topic)
        return self.call(ApiKey.PRODUCE, version, **fields).responses[0].partition_responses[0]

    def fetch(self, topic: str, offset: int = 0, version: int = 12, *, partition: int = 0, **options: Any) -> Any:
        """Fetch, without waiting unless the options say so; gives the partition's part of the answer."""
        fields = fetch_fields(topic, offset, partition, **options)
        if version >= IDS_SINCE:
            fields["topics"][0]["topic_id"] = self.topic_id(topic)
        return self.call(ApiKey.FETCH, version, **fields).responses[0].partitions[0]

    def read_log(self, topic: str, partition: int = 0, start: int = 0, *, level: int = 0) -> tuple[list[Record], int]:
        """The records from an offset on, those of control batches left out, and where the next fetch would begin.

        Raises:
            OSError: a fetch is refused.
        """
        records: list[Record] = []
        while True:
            size = 8 << 20
            fields = fetch_fields(topic, start, partition, max_bytes=size, partition_max_bytes=size)
            # What is not here yet is waited for; at the end of the log nobody asks again.
            fields |= {"isolation_level": level, "max_wait_ms": 500, "min_bytes": 1}
            answer = self.call(ApiKey.FETCH, 11, **fields)
            told = answer if answer.error_code else answer.responses[0].partitions[0]
            if told.error_code:
                raise OSError(f"fetch {topic}-{partition} from {start}: error {told.error_code}")
            before = start
            for header, data in iter_batches(bytes(told.records or b"")):
                if not header.is_control:
                    records += [one for one in decode_batch(data) if one.offset >= before]
                start = header.last_offset + 1
            if start == before or start >= (told.last_stable_offset if level else told.high_watermark):
                return records, start

    def delete_records(self, topic: str, offset: int) -> Any:
        """Delete those of partition 0 before an offset; gives the partition's part of the answer."""
        return self.call(ApiKey.DELETE_RECORDS, 2, **delete_records_fields(topic, offset)).topics[0].partitions[0]

    def offset(self, topic: str, timestamp: int = -1, version: int = 7, *, partition: int = 0, level: int = 0) -> Any:
        """ListOffsets of a partition; gives the partition's part of the answer."""
        fields = list_offsets_fields(topic, timestamp, partition, isolation=level)
        answer = self.call(ApiKey.LIST_OFFSETS, version, **fields)
        return answer.topics[0].partitions[0]

    # Groups

    def join(self, group: str, version: int = 7, **options: Any) -> Any:
        return self.call(ApiKey.JOIN_GROUP, version, **join_fields(group, **options))

    def start_join(self, group: str, version: int = 7, **options: Any) -> None:
        """Send only."""
        self.start(ApiKey.JOIN_GROUP, version, **join_fields(group, **options))

    def enter(self, group: str, version: int = 7, **options: Any) -> Any:
        """Ask for a member id and join with it."""
        member_id = self.join(group, version, **options).member_id
        return self.join(group, version, member_id=member_id, **options)

    def start_enter(self, group: str, version: int = 7, **options: Any) -> str:
        """Ask for a member id, and send the join with it only; gives the id."""
        member_id = str(self.join(group, version, **options).member_id)
        self.start_join(group, version, member_id=member_id, **options)
        return member_id

    def start_sync(self, group: str, joined: Any, assignments: Mapping[str, bytes], version: int = 5) -> None:
        """Send only. ``joined`` is the answer to the join."""
        self.start(ApiKey.SYNC_GROUP, version, **_sync_fields(group, joined, assignments))

    def sync(self, group: str, joined: Any, assignments: Mapping[str, bytes] | None = None, version: int = 5) -> Any:
        return self.call(ApiKey.SYNC_GROUP, version, **_sync_fields(group, joined, assignments or {}))

    def stable(self, group: str, **options: Any) -> Any:
        """Become the only member, with an assignment; the answer to the join."""
        joined = self.enter(group, **options)
        assert joined.error_code == 0, joined
        assert self.sync(group, joined, {joined.member_id: b"assigned"}).assignment == b"assigned"
        return joined

    def heartbeat(self, group: str, joined: Any, version: int = 4, **fields: Any) -> int:
        """The error code."""
        known = heartbeat_fields(group, joined.generation_id, joined.member_id)
        return int(self.call(ApiKey.HEARTBEAT, version, **known | fields).error_code)

    def await_rebalance(self, group: str, joined: Any) -> None:
        """Heartbeat until it says that a join phase has begun: what others have sent on their connections arrives."""
        deadline = time.monotonic() + 10
        while not (told := self.heartbeat(group, joined)):
            assert time.monotonic() < deadline, "no rebalance begins"
        assert told == ErrorCode.REBALANCE_IN_PROGRESS

    def let_in(self, group: str, joined: Any, *others: Client, **options: Any) -> list[Any]:
        """Join again with others, who have sent their joins; the answers, the own one first."""
        self.await_rebalance(group, joined)
        self.start_join(group, member_id=joined.member_id, **options)
        return [client.answer() for client in (self, *others)]

    def leave(self, group: str, *members: str, version: int = 5) -> Any:
        fields = leave_fields(group, *((member, None) for member in members))
        return self.call(ApiKey.LEAVE_GROUP, version, **fields)

    def describe(self, group: str, version: int = 5) -> Any:
        return self.call(ApiKey.DESCRIBE_GROUPS, version, groups=[group]).groups[0]

    def commit(self, group: str, topic: str, offset: int = 1, version: int = 8, **fields: Any) -> int:
        """Commit for partition 0, by default from outside of the group; the error code.

        Args:
            fields: fields of the request, or of its partition.
        """
        known = commit_fields(group, [(topic, 0, offset)], metadata="")
        (place,) = known["topics"][0]["partitions"]
        place |= {name: fields.pop(name) for name in list(fields) if name in place}
        answer = self.call(ApiKey.OFFSET_COMMIT, version, **known | fields)
        return int(answer.topics[0].partitions[0].error_code)

    def committed(self, group: str, topic: str, version: int = 8, *, require_stable: bool = False) -> Any:
        """OffsetFetch of partition 0, by name; gives the partition's part of the answer."""
        answer = self._offsets(offset_fetch_fields(group, {topic: [0]}, stable=require_stable), version)
        return answer.topics[0].partitions[0]

    def all_committed(self, group: str) -> dict[tuple[str, int], int]:
        """The offsets of a group, by topic and partition."""
        topics = self._offsets(offset_fetch_fields(group), 8).topics
        return {(row.name, place.partition_index): place.committed_offset for row in topics for place in row.partitions}

    def generations(self, group: str) -> list[int]:
        """The generations of a group in the order in which they were logged, which DescribeGroups does not have."""
        records, _ = self.read_log(OFFSETS_TOPIC, coordinator_partition(group))
        mine = [one.value for one in records if one.key and decode_key(one.key) == GroupKey(group_id=group)]
        return [decode_value(GroupValue, value).generation for value in mine if value is not None]

    def _offsets(self, fields: dict[str, Any], version: int) -> Any:
        answer = self.call(ApiKey.OFFSET_FETCH, version, **fields)
        answer = answer.groups[0] if version >= 8 else answer
        if version >= 2 and answer.error_code:
            raise OSError(f"offset fetch: error {answer.error_code}")
        return answer

    # Producers

    def producer(self, transactional_id: str | None = None, version: int = 4, **fields: Any) -> Any:
        """The answer of InitProducerId."""
        wanted = {"transaction_timeout_ms": 60_000, "producer_id": -1, "producer_epoch": -1} | fields
        return self.call(ApiKey.INIT_PRODUCER_ID, version, transactional_id=transactional_id, **wanted)

    def add_partitions(self, transactional_id: str, producer: Any, *tps: TopicPartition, version: int = 3) -> list[int]:
        """Take partitions into the transaction; their error codes."""
        fields = add_partitions_fields(who(producer) | {"transactional_id": transactional_id}, tps)
        answer = self.call(ApiKey.ADD_PARTITIONS_TO_TXN, version, **fields)
        rows = answer.results_by_topic_v3_and_below
        return [place.partition_error_code for row in rows for place in row.results_by_partition]

    def end(self, transactional_id: str, producer: Any, *, commit: bool, version: int = 3) -> Any:
        fields = who(producer) | {"transactional_id": transactional_id, "committed": commit}
        return self.call(ApiKey.END_TXN, version, **fields)


def who(producer: Any) -> dict[str, Any]:
    """The fields of a request that name a producer."""
    return {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}


def of(producer: Any, sequence: int = 0, *, transactional: bool = False) -> dict[str, Any]:
    """The fields of a batch that name its producer."""
    return who(producer) | {"base_sequence": sequence, "is_transactional": transactional}


def _sync_fields(group: str, joined: Any, assignments: Mapping[str, bytes]) -> dict[str, Any]:
    """Of the member to whom this was the answer to its join."""
    protocol = joined.protocol_name or "range"
    return sync_fields(group, joined.generation_id, joined.member_id, assignments, protocol_name=protocol)
