"""A member on kafka-python, as it comes from PyPI."""

from __future__ import annotations

import time
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.errors import KafkaError

from examples.incidents.member import Member

ASSIGNORS = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}


def run(member: Member) -> None:
    """Consume until told to stop, then leave."""

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_revoked(self, revoked: Any) -> None:
            member.revoked()

        def on_partitions_assigned(self, assigned: Any) -> None:
            member.assigned(assigned)

    consumer = KafkaConsumer(**member.options(), partition_assignment_strategy=[ASSIGNORS[member.assignor]])
    consumer.subscribe(member.topics, listener=Listener())
    try:
        while not member.stopping:
            try:
                # Long: release 3.0 forgets an answer to its JoinGroup that comes between two calls.
                consumer.poll(timeout_ms=2_000)
            except KafkaError as error:
                member.trouble(error)
                time.sleep(1)
            if command := member.command():
                match command:
                    case "work", seconds:
                        time.sleep(float(seconds))
                    case _, topics:
                        consumer.subscribe(topics.split(","), listener=Listener())
    finally:
        consumer.close()
