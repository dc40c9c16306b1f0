"""A member on confluent-kafka, as it comes from PyPI."""

from __future__ import annotations

import logging
import time

from confluent_kafka import Consumer, KafkaError, KafkaException

from examples.incidents.member import Member


def run(member: Member) -> None:
    """Consume until told to stop, then leave; a static member just closes, as its client does."""
    options = {name.replace("_", "."): value for name, value in member.options().items()}
    options["partition.assignment.strategy"] = member.assignor
    consumer = Consumer(options, logger=logging.getLogger("confluent-kafka"))

    def subscribe(topics: list[str]) -> None:
        consumer.subscribe(
            topics,
            on_assign=lambda _, partitions: member.assigned(partitions),
            on_revoke=lambda _, __: member.revoked(),
            on_lost=lambda _, __: member.revoked(),
        )

    subscribe(member.topics)
    try:
        while not member.stopping:
            try:
                for message in consumer.consume(100, timeout=0.2):
                    if (error := message.error()) and error.code() != KafkaError._PARTITION_EOF:
                        member.trouble(error.name())
            except KafkaException as error:
                member.trouble(error.args[0].name())
            if command := member.command():
                match command:
                    case "work", seconds:
                        time.sleep(float(seconds))
                    case _, topics:
                        subscribe(topics.split(","))
    finally:
        consumer.close()
