"""Play one trace of moves on both brokers: topics are made before, logs compared at the end, nothing is left behind."""

from __future__ import annotations

import asyncio
import itertools
import struct
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from random import Random
from typing import Any, NamedTuple

from ottla.protocol.apis import ApiKey
from ottla.protocol.consumer_group_records import ConsumerGroupRegularExpressionKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.groups import coordinator_partition
from ottla.protocol.records import Record, decode_batch, iter_batches
from tests.differential.calls import GROUP_PARTITIONS, GROUP_TOPIC, TOPIC, note_records
from tests.differential.moves import learn_id, own, perform
from tests.differential.pairs import Half, Move, Pair
from tests.differential.permission_calls import filter_of
from tests.differential.talks import CLOSE_S
from tests.differential.talks import SILENCE_S as GUEST_SILENCE_S
from tests.differential.txn_calls import TRANSACTION_PARTITIONS, TRANSACTIONS_TOPIC, note_state
from tests.differential.wire import Sent, decoded, plain
from tests.support.requests import create_fields, fetch_fields, leave_fields, list_offsets_fields, offset_fetch_fields

ALL = 1 << 24
RESOLUTION_S = 3.0  # a regex that is not resolved within that, by either broker, is not resolved
READY_S = 30.0  # a broker that has just started takes its time
SILENCE_S = 0.7  # what is not answered within that, by either broker, is not answered


class Kind(NamedTuple):
    """A kind of random trace. ``topics``: the trace's own topics and how many partitions they have."""

    generate: Callable[[Random], list[Move]]
    topics: dict[str, int] = {}  # noqa: RUF012 - nobody changes it
    groups: bool = False
    transactions: bool = False
    probes: bool = False  # groups look at topics: whether the coordinator knows of them is asked
    regexes: bool = False  # they are resolved beside the requests
    secured: bool = False  # there are users and rules


async def play(pair: Pair, kind: Kind, moves: Sequence[Move]) -> None:
    """Run a trace until its end or the first difference; it is in the pair then."""
    starts: dict[Half, int] = {}

    async def begin(half: Half) -> None:
        if kind.probes:
            half.probe = _neighbour(half)
        for topic in await _metadata(half, [TOPIC]):
            learn_id(half, topic.name, topic.topic_id)
        await make(half, kind.topics)
        if kind.groups:
            starts[half] = half.log_end = await _end_of(half, GROUP_TOPIC, _group_partition(half))
        for letter in "ab" if kind.transactions else "":
            at = coordinator_partition(half.name + letter, TRANSACTION_PARTITIONS)
            half.log_starts[at] = await _end_of(half, TRANSACTIONS_TOPIC, at)

    async def finish(half: Half) -> None:
        if kind.groups:
            note_records(half, await _records(half, GROUP_TOPIC, _group_partition(half), starts[half]))
        if kind.transactions:
            await _note_transactions(half)

    try:
        await pair.both(begin)
        for step in moves:
            await _step(pair, step)
            if kind.regexes:
                await pair.both(_resolved)
            if pair.differs() or pair.theirs.is_forgotten:
                return
        await pair.both(finish)
        pair.differs()
    except (AssertionError, OSError, AttributeError, KeyError, TypeError, ValueError, IndexError) as error:
        pair.theirs.note("the trace broke", repr(error))  # a broker that answers nonsense must not end the run
        pair.differs()
    finally:
        await asyncio.gather(*(_clean(half, kind) for half in pair.halves), return_exceptions=True)
        pair.close()


async def _step(pair: Pair, step: Move) -> None:
    if step.name == "nap":
        await asyncio.sleep(step.fields["seconds"])
    else:
        for half in pair.halves:
            perform(half, step)
    await pair.settle()
    after = AFTER.get(step.name)
    if after:
        await pair.both(lambda half: after(half, step.fields))


# What stands between a move and the next: both brokers must have got where the answer says that they are.


async def _rest(half: Half, fields: dict[str, Any]) -> None:
    """Until nothing is under way for a transactional id."""
    if fields["name"] is None:
        return
    name = own(half, fields["name"])
    for _ in range(200):
        answer = await half.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=[name])
        if not answer.transaction_states[0].transaction_state.startswith("Prepare"):
            break
        await asyncio.sleep(0.02)
    await asyncio.sleep(0.02)  # the state is complete a moment before the next step is allowed


async def _framed(half: Half, fields: dict[str, Any]) -> None:
    label, line = half.sent_raw
    await half.until(lambda: line.has_answer, SILENCE_S)
    if not line.has_answer and half.peer is not None and half.peer.sent_raw[1].has_answer:
        await half.until(lambda: line.has_answer)  # the other one has answered
    frame = line.frames[0] if line.frames else None
    half.answers += 1
    half.note(label, ("closed" if line.closed else "silent") if frame is None else framed(half, fields["data"], frame))


def framed(half: Half, data: bytes, frame: bytes) -> Any:
    """The answer to a frame, read as what was asked for; as it is where it cannot be."""
    key, version = struct.unpack_from(">hh", data, 4)
    try:
        sent = Sent(ApiKey(key), version, int.from_bytes(frame[:4], "big", signed=True))
        return half.tidy(sent.key, plain(decoded(sent, frame)))
    except (AssertionError, ValueError, KeyError):
        return frame.hex()


async def _said(half: Half, fields: dict[str, Any]) -> None:
    line = half.talk.wire
    if not half.talk.is_over:
        await half.until(lambda: line.has_answer, GUEST_SILENCE_S)
        frame = line.frames.pop(0) if line.frames else None
        told = half.talk.told(frame)
        if frame is not None:
            await half.until(lambda: line.closed, CLOSE_S if "NONE" not in str(told) else 0)
        half.answers += 1
        half.note(f"{len(half.transcript)} say {fields['label']}", told | {"closed": line.closed})
        half.talk.is_over = line.closed


async def _ruled(half: Half, fields: dict[str, Any]) -> None:
    """Until what changed last of the rules is in force: Kafka's broker hears of it from its controller."""
    rows = half.last.results if hasattr(half.last, "results") else half.last.filter_results
    if rows[-1].error_code:
        return
    for _ in range(200):
        answer = await half.ask(ApiKey.DESCRIBE_ACLS, 3, **filter_of(half.rules[-1]))
        if bool(answer.resources) == ("rules" in fields):
            break
        await asyncio.sleep(0.02)


async def _asked(half: Half, fields: dict[str, Any]) -> None:
    """Until topics that came, grew or went are as the answer has them."""
    key = ApiKey[fields["row"].split()[0]]
    if half.open or isinstance(half.last, str):
        return
    if key is ApiKey.CREATE_TOPICS:
        await _created(half, {})
    elif key is ApiKey.DELETE_TOPICS:
        await _deleted(half, {})
    elif key is ApiKey.CREATE_PARTITIONS:
        for item in half.last.results:
            if item.error_code == 0:
                await _wait_for(half, item.name, count=9)


async def _created(half: Half, fields: dict[str, Any]) -> None:
    if fields.get("only_check") or isinstance(half.last, str):
        return
    for item in half.last.topics:
        if item.error_code == 0:
            await _wait_for(half, item.name)


async def _deleted(half: Half, fields: dict[str, Any]) -> None:
    for item in half.last.responses:
        name = item.name or half.names_of_ids.get(item.topic_id)
        if item.error_code == 0 and name:
            await _wait_for(half, name, gone=True)
            await _offsets_gone(half, name)


async def _grown(half: Half, fields: dict[str, Any]) -> None:
    if fields.get("only_check"):
        return
    for item in half.last.results:
        if item.error_code == 0:
            await _wait_for(half, item.name, count=dict(fields["counts"])["@" + item.name.removeprefix(half.name)])


async def _told(half: Half, fields: dict[str, Any]) -> None:
    """A broker hears of changed settings from its controller."""
    if fields["only_check"] or half.last.responses[0].error_code:
        return
    wanted = {key: value for key, operation, value in fields["changes"] if operation == 0}
    resource = {
        "resource_type": fields.get("kind", 2),
        "resource_name": own(half, fields["name"]),
        "configuration_keys": list(wanted),
    }
    await asyncio.sleep(0.1)
    for _ in range(50 if wanted else 0):
        answer = await half.ask(ApiKey.DESCRIBE_CONFIGS, 4, resources=[resource])
        if all(row.value == wanted[row.name] for row in answer.results[0].configs):
            return
        await asyncio.sleep(0.05)


async def _found(half: Half, fields: dict[str, Any]) -> None:
    """A JoinGroup by a member that is not known makes Kafka forget an Empty consumer group."""
    if not half.open and half.last.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
        ask = partial(half.ask, ApiKey.CONSUMER_GROUP_DESCRIBE, 0, group_ids=[half.name])
        half.is_forgotten = (await ask()).groups[0].group_state == "Empty"


AFTER: dict[str, Callable[[Half, dict[str, Any]], Awaitable[None]]] = {
    "init": _rest,
    "end": _rest,
    "frame": _framed,
    "say": _said,
    "allow": _ruled,
    "take_back": _ruled,
    "asked": _asked,
    "classic_join": _found,
    "create": _created,
    "delete_topics": _deleted,
    "grow": _grown,
    "alter": _told,
}


# Topics


async def make(half: Half, topics: dict[str, int]) -> None:
    """Create topics of the trace, and wait until they are served."""
    if not topics:
        return
    wanted = {half.name + name: count for name, count in topics.items()}
    answer = await half.ask(ApiKey.CREATE_TOPICS, 5, **create_fields(wanted))
    assert all(item.error_code == 0 for item in answer.topics), answer
    for name, count in wanted.items():
        await _wait_for(half, name, count=count)


async def _wait_for(half: Half, name: str, *, count: int = 1, gone: bool = False) -> None:
    """Until a topic is served, and every partition has a leader; or until it is gone."""
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        topic = (await _metadata(half, [name]))[0]
        rows = [row for row in topic.partitions if row.error_code == 0]
        if gone and topic.error_code == 3:
            await _known_to_groups(half, name, 0)
            return
        if not gone and topic.error_code == 0 and len(rows) >= count:
            learn_id(half, topic.name, topic.topic_id)
            ends = list_offsets_fields(name, -1, *range(len(topic.partitions)))
            served = await half.ask(ApiKey.LIST_OFFSETS, 5, **ends)
            if not any(row.error_code for row in served.topics[0].partitions):
                await _known_to_groups(half, name, len(rows))
                return
        await asyncio.sleep(0.01)


async def _metadata(half: Half, names: Sequence[str]) -> Any:
    rows = [{"name": name} for name in names]
    return (await half.ask(ApiKey.METADATA, 10, topics=rows, allow_auto_topic_creation=False)).topics


# What happens beside the requests


async def _offsets_gone(half: Half, topic: str) -> None:
    """Until the coordinators have deleted what the trace's groups committed for a topic: Kafka's do it a while later."""
    deadline = time.monotonic() + READY_S
    fields = offset_fetch_fields([half.name, half.name + "o"])
    while time.monotonic() < deadline:
        answer = await half.ask(ApiKey.OFFSET_FETCH, 8, **fields)
        if all(item.name != topic for group in answer.groups for item in group.topics):
            return
        await asyncio.sleep(0.02)


def _neighbour(half: Half) -> str:
    """A group whose records share a partition with those of the trace's group."""
    names = (f"{number}.probe.{half.name}" for number in itertools.count())
    wanted = _group_partition(half)
    return next(name for name in names if coordinator_partition(name, GROUP_PARTITIONS) == wanted)


async def _known_to_groups(half: Half, topic: str, count: int) -> None:
    """Until the coordinator gives out so many partitions of a topic: Kafka's hears of topics after everybody else."""
    if not half.probe:
        return
    who = {"group_id": half.probe, "member_id": "probe"}
    says = {"rebalance_timeout_ms": 30_000, "topic_partitions": [], "subscribed_topic_names": [topic]}
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        answer = await half.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **who, member_epoch=0, **says)
        await half.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **who, member_epoch=-1)
        given = answer.assignment.topic_partitions if answer.assignment else []
        if sum(len(row.partitions) for row in given) == count:
            return
        await asyncio.sleep(0.02)


async def _resolved(half: Half) -> None:
    """Until both coordinators have resolved regexes equally often: no answer waits for it."""
    deadline, partition = time.monotonic() + RESOLUTION_S, _group_partition(half)
    begin = struct.pack(">hh", ConsumerGroupRegularExpressionKey.versions[0], len(half.name)) + half.name.encode()
    await asyncio.sleep(0.01)
    while time.monotonic() < deadline:
        end = await _end_of(half, GROUP_TOPIC, partition)
        for record in await _records(half, GROUP_TOPIC, partition, half.log_end, end):
            if record.value is not None and (record.key or b"").startswith(begin):
                half.resolved += 1
        half.log_end = end
        if half.peer is not None and half.peer.resolved == half.resolved:
            return
        await asyncio.sleep(0.02)


# Logs


def _group_partition(half: Half) -> int:
    return coordinator_partition(half.name, GROUP_PARTITIONS)


async def _end_of(half: Half, topic: str, partition: int) -> int:
    answer = await half.ask(ApiKey.LIST_OFFSETS, 5, **list_offsets_fields(topic, -1, partition))
    return int(answer.topics[0].partitions[0].offset)


async def _records(half: Half, topic: str, partition: int, start: int, end: int | None = None) -> list[Record]:
    """The records that were appended to a partition since ``start``, up to ``end`` or as many as there are."""
    if end is None:
        end = await _end_of(half, topic, partition)
    found: list[Record] = []
    while start < end:
        fields = fetch_fields(topic, start, partition, partition_max_bytes=ALL)
        answer = await half.ask(ApiKey.FETCH, 11, **fields | {"max_wait_ms": 100, "min_bytes": 1, "max_bytes": ALL})
        data = bytes(answer.responses[0].partitions[0].records or b"")
        if not data:
            break
        for header, batch in iter_batches(data):
            start = header.base_offset + header.last_offset_delta + 1
            if half.name.encode() in bytes(batch) and not header.is_control:  # most of it is other traces'
                found += decode_batch(batch)
    return found


async def _note_transactions(half: Half) -> None:
    """The records of ``__transaction_state`` for the ids of this trace."""
    for name in sorted(name for name in half.known if name):
        partition = coordinator_partition(name, TRANSACTION_PARTITIONS)
        for record in await _records(half, TRANSACTIONS_TOPIC, partition, half.log_starts.get(partition, 0)):
            note_state(half, name, record)


async def _clean(half: Half, kind: Kind) -> None:
    """Leave no group and no topic behind: a broker with many of them becomes slow."""
    half.open.clear()
    if kind.groups:
        ids = {member for member in (*half.member.values(), *half.former.values()) if member}
        if ids:
            await half.ask(ApiKey.LEAVE_GROUP, 4, **leave_fields(half.name, *((member, None) for member in ids)))
        others = [half.name + "m", half.name + "o"] if kind.secured else [half.probe] if half.probe else []
        await half.ask(ApiKey.DELETE_GROUPS, 2, groups_names=[half.name, *others])
    if half.rules:
        await half.ask(ApiKey.DELETE_ACLS, 3, filters=[filter_of(rule) for rule in half.rules])
    mine = [name for name in half.topic_ids if name.startswith(half.name)]
    if mine:
        await half.ask(ApiKey.DELETE_TOPICS, 6, topics=[{"name": name} for name in mine], timeout_ms=10_000)
