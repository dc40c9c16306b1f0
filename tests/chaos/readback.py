"""Reading a broker with single requests, so that no client's cleverness stands between the test and what is stored."""

from __future__ import annotations

from collections import defaultdict

from ottla.protocol.apis import ApiKey
from ottla.protocol.groups import coordinator_partition
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.list_transactions import ListTransactionsRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.offsets_topic import GroupKey, decode_group_value, decode_key
from ottla.protocol.records import Record, decode_batch, iter_batches
from tests.chaos.ledger import Ledger, Place
from tests.e2e.raw import RawClient

FETCH_VERSION = 11
OFFSETS_TOPIC = "__consumer_offsets"


def fetch(client: RawClient, place: Place, start: int, *, committed: bool = False) -> tuple[list[Record], int]:
    """The records of a partition from an offset on, those of control batches left out, and its end."""
    topic, partition = place
    records: list[Record] = []
    while True:
        asked = FetchPartition(partition=partition, fetch_offset=start, partition_max_bytes=8 << 20)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=8 << 20,
            isolation_level=int(committed),
            session_id=0,
            session_epoch=-1,
            topics=[FetchTopic(topic=topic, partitions=[asked])],
        )
        answer = client.ask(ApiKey.FETCH, FETCH_VERSION, request)
        if answer.error_code:
            raise OSError(f"fetch: error {answer.error_code}")
        told = answer.responses[0].partitions[0]
        if told.error_code:
            raise OSError(f"fetch {topic}-{partition} from {start}: error {told.error_code}")
        before = start
        for header, batch in iter_batches(bytes(told.records or b"")):
            if not header.is_control:
                records += [one for one in decode_batch(batch) if one.offset >= before]
            start = header.last_offset + 1
        if start == before:
            return records, start


def read_on(client: RawClient, ledger: Ledger, *, again: bool = False) -> None:
    """Read what is new of all known places, or everything ``again``, and check it."""
    for place, values in ledger.stored.items():
        promised = ledger.promised(place)
        first = 0 if again else len(values)
        records, _ = fetch(client, place, first)
        ledger.read(place, first, [(one.offset, (one.value or b"").decode()) for one in records])
        ledger.check_acked(place, promised)


def read_offsets(client: RawClient, ledger: Ledger, *, final: bool = False) -> None:
    """Read the committed offsets of all groups that committed any, and check them."""
    for group, promised in ledger.committed().items():
        ledger.found_offsets(group, promised, client.committed(group), final=final)


def read_topics(client: RawClient, ledger: Ledger) -> None:
    """Read which topics there are, and check them."""
    made, gone = ledger.topics()
    answer = client.ask(ApiKey.METADATA, 9, MetadataRequest(topics=None))
    ledger.found_topics(made, gone, {topic.name: len(topic.partitions) for topic in answer.topics})


def read_generations(client: RawClient, ledger: Ledger) -> None:
    """Read what the coordinator wrote about all groups, and check it."""
    for group in ledger.committed():
        records, _ = fetch(client, (OFFSETS_TOPIC, coordinator_partition(group)), 0)
        written: dict[str, list[int]] = defaultdict(list)
        for record in records:
            key = decode_key(record.key or b"")
            if isinstance(key, GroupKey) and record.value is not None:
                written[key.group_id].append(decode_group_value(record.value).generation)
        ledger.found_generations(group, written[group])


def unfinished_transactions(client: RawClient) -> list[str]:
    """Transactions that are not ended yet, or whose end is not written everywhere."""
    answer = client.ask(ApiKey.LIST_TRANSACTIONS, 0, ListTransactionsRequest())
    done = {"Empty", "CompleteCommit", "CompleteAbort"}
    return [
        f"{one.transactional_id} is {one.transaction_state}"
        for one in answer.transaction_states
        if one.transaction_state not in done
    ]


def end_of(client: RawClient, place: Place) -> int:
    """The offset that the next record will get."""
    topic, partition = place
    asked = ListOffsetsPartition(partition_index=partition, timestamp=-1)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=topic, partitions=[asked])])
    answer = client.ask(ApiKey.LIST_OFFSETS, 5, request)
    end: int = answer.topics[0].partitions[0].offset
    return end
