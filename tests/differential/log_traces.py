"""Reading, listing and trimming logs."""

from __future__ import annotations

from ottla.protocol.apis import ApiKey
from tests.differential.log_calls import BASE_TIME, WHO, batch, made, offsets, produce, read, trim
from tests.differential.tracing import Trace


def trace_fetches(t: Trace) -> None:
    name = made(t, count=2)
    for version in range(4, 13):
        read(t, name, version=version)
    for number in range(4):
        produce(t, name, batch(3, start=number * 10))
    for version in range(4, 13):
        read(t, name, 0, version=version)
        read(t, name, 4, version=version, isolation_level=1)
        read(t, name, 12, version=version)
        read(t, name, 13, version=version)
        read(t, name, -1, version=version)
        read(t, name, -2, version=version)
        read(t, name, 0, version=version, partition=2)
        read(t, name, 0, version=version, partition=-1)
        read(t, f"{t.name}-absent", 0, version=version)
        read(t, name, 0, version=version, max_bytes=1)
        read(t, name, 0, version=version, partition_max_bytes=1)
        read(t, name, 0, version=version, partition_max_bytes=0)
        read(t, name, 0, version=version, max_bytes=0)
        read(t, name, 0, version=version, min_bytes=0, max_wait_ms=0)
        read(t, name, 12, version=version, min_bytes=0)
        read(t, name, 0, version=version, min_bytes=10_000)
        if version >= 9:
            for epoch in (0, 1, 7):
                read(t, name, 0, version=version, current_leader_epoch=epoch)
        if version >= 12:
            for epoch in (0, 1, 7):
                read(t, name, 0, version=version, last_fetched_epoch=epoch)
                read(t, name, 13, version=version, last_fetched_epoch=epoch)


def trace_fetch_sessions(t: Trace) -> None:
    name = made(t)
    produce(t, name, batch())
    for version in (7, 11, 12):
        read(t, name, version=version, session_id=0, session_epoch=-1)
        read(t, name, version=version, session_id=77, session_epoch=1)
        read(t, name, version=version, session_id=77, session_epoch=-1)
    for version in range(4, 13):
        t.call(WHO, ApiKey.FETCH, version, max_wait_ms=50, min_bytes=1, max_bytes=100, topics=[], session_epoch=-1)


def trace_list_offsets(t: Trace) -> None:
    name = made(t)
    for version in range(1, 8):
        offsets(t, name, -1, -2, 0, BASE_TIME, version=version)
    offsets(t, name, -3, version=7)
    for number in range(3):
        produce(t, name, batch(3, start=number * 10))
    produce(t, name, batch(2, start=5))
    for version in range(1, 8):
        times = (-1, -2, 0, BASE_TIME, BASE_TIME + 1, BASE_TIME + 3, BASE_TIME + 12, BASE_TIME + 22, BASE_TIME + 23)
        offsets(t, name, *times, version=version)
        offsets(t, name, -1, version=version, partition=1)
        offsets(t, name, -1, version=version, partition=-1)
        offsets(t, f"{t.name}-absent", -1, version=version)
        offsets(t, name, -3, -4, -5, -6, version=version)
        if version >= 2:
            offsets(t, name, -1, version=version, isolation=1)
        if version >= 4:
            offsets(t, name, -1, version=version, leader_epoch=0)
            offsets(t, name, -1, version=version, leader_epoch=1)


def trace_delete_records(t: Trace) -> None:
    name = made(t)
    trim(t, name, 0)
    trim(t, name, -1)
    trim(t, name, 1)
    for _ in range(4):
        produce(t, name, batch(3))
    for version in range(3):
        trim(t, name, 2 + version, version)
        trim(t, name, 1, version)
        trim(t, name, 13, version)
        trim(t, name, -2, version)
        trim(t, name, 3, version, partition=7)
        trim(t, f"{t.name}-absent", 3, version)
        offsets(t, name, -2, -1, 0)
        read(t, name, 0)
        read(t, name, 2 + version)
    trim(t, name, -1)
    offsets(t, name, -2, -1, 0)
    read(t, name, 12)
    produce(t, name, batch(3))
    t.call(WHO, ApiKey.DELETE_RECORDS, 2, topics=[], timeout_ms=100)


def trace_leader_epochs(t: Trace) -> None:
    name = made(t)
    for filled in (False, True):
        for version in (2, 3, 4):
            for current in (-1, 0, 1):
                for epoch in (-1, 0, 1, 7):
                    for partition in (0, 1):
                        place = {"partition": partition, "current_leader_epoch": current, "leader_epoch": epoch}
                        topics = [{"topic": name, "partitions": [place]}]
                        t.call(WHO, ApiKey.OFFSET_FOR_LEADER_EPOCH, version, replica_id=-1, topics=topics)
        if not filled:
            produce(t, name, batch(3))
