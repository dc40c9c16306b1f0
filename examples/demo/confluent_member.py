"""A member on confluent-kafka, as it comes from PyPI."""

from __future__ import annotations

import logging
import signal
from importlib.metadata import version
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition, libversion

from examples.demo.member import BATCH, Member
from examples.demo.reports import Position, checksum
from examples.demo.security import config_file, properties


def run(member: Member) -> None:
    """Consume until told to stop, then commit and leave."""

    def stop(*_: Any) -> None:
        member.stopping = True

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole terminal; the demo says who stops when
    consumer = Consumer(
        {
            "bootstrap.servers": member.bootstrap,
            "client.id": member.name,
            "group.id": member.group,
            "partition.assignment.strategy": "roundrobin",
            "session.timeout.ms": member.session_timeout_ms,
            "heartbeat.interval.ms": member.heartbeat_interval_ms,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **properties(config_file()),
        },
        logger=logging.getLogger("confluent-kafka"),
    )

    def revoked(_: Consumer, partitions: list[TopicPartition]) -> None:
        commit(consumer, member)
        member.revoked()

    consumer.subscribe(
        [member.topic],
        on_assign=lambda _, partitions: member.assigned(tp.partition for tp in partitions),
        on_revoke=revoked,
        on_lost=lambda _, partitions: member.revoked(),
    )
    member.report.event("started", client=f"confluent-kafka {version('confluent-kafka')}, librdkafka {libversion()[0]}")
    while not member.done:
        see(member, consumer.consume(BATCH, timeout=0.2))
        if member.commit_due():
            commit(consumer, member)
    consumer.close()


def see(member: Member, messages: list[Message]) -> None:
    """Report what was consumed."""
    positions = []
    for message in messages:
        if error := message.error():
            member.report.event("error", error=str(error))
        elif (partition := message.partition()) is not None and (offset := message.offset()) is not None:
            positions.append(Position(partition, offset, checksum(message.key(), message.value())))
    if positions:
        member.saw(positions)


def commit(consumer: Consumer, member: Member) -> None:
    """Commit what was reported; a refusal is reported too, and tried again while the partitions are ours."""
    offsets = dict(member.pending)
    if not offsets:
        return
    places = [TopicPartition(member.topic, partition, offset) for partition, offset in offsets.items()]
    try:
        results = consumer.commit(offsets=places, asynchronous=False)
    except KafkaException as error:
        member.report.event("commit refused", error=str(error.args[0]))
        return
    member.committed({tp.partition: offsets[tp.partition] for tp in results or () if tp.error is None})
