"""Committed offsets beside log ends, asked for with confluent-kafka: not with the client that is on trial."""

from __future__ import annotations

from confluent_kafka import Consumer, TopicPartition

TIMEOUT_S = 10.0


def committed_and_ends(
    bootstrap: str, group: str, topic: str, partitions: int, security: dict[str, str]
) -> tuple[dict[int, int], dict[int, int]]:
    """By partition what a group has committed, and where the log ends; -1 where there is nothing, or nobody says.

    Blocks: not for an event loop's thread. It asks as a consumer that never joins the group.

    Args:
        security: how to connect, by librdkafka's names.
    """
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "client.id": "auditor", **security})
    try:
        places = consumer.committed([TopicPartition(topic, one) for one in range(partitions)], timeout=TIMEOUT_S)
        marks = {place.partition: consumer.get_watermark_offsets(place, timeout=TIMEOUT_S) for place in places}
    finally:
        consumer.close()
    committed = {place.partition: max(place.offset, -1) for place in places}
    return committed, {partition: found[1] if found else -1 for partition, found in marks.items()}
