"""Committed offsets beside log ends, asked for with confluent-kafka: not with the client that is on trial."""

from __future__ import annotations

from confluent_kafka import Consumer, TopicPartition

TIMEOUT_S = 10.0


class Offsets:
    """What a group has committed, and where the logs end.

    Blocks: not for an event loop's thread. It asks as a consumer that never joins the group.
    """

    def __init__(self, bootstrap: str, group: str, topic: str, partitions: int) -> None:
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "client.id": "auditor"})
        self._places = [TopicPartition(topic, partition) for partition in range(partitions)]

    def log_ends(self) -> dict[int, int]:
        """The next offset of each partition; -1 where the broker did not say."""
        ends = {}
        for place in self._places:
            watermarks = self._consumer.get_watermark_offsets(place, timeout=TIMEOUT_S)
            ends[place.partition] = watermarks[1] if watermarks else -1
        return ends

    def committed(self) -> dict[int, int]:
        """The group's offset of each partition; -1 where it has none."""
        places = self._consumer.committed(self._places, timeout=TIMEOUT_S)
        return {place.partition: max(place.offset, -1) for place in places}

    def close(self) -> None:
        self._consumer.close()
