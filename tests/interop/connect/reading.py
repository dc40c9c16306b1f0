"""Reading topics as a user would, and telling what is there."""

from __future__ import annotations

import threading
from collections import Counter
from functools import partial
from typing import Any, Self

from confluent_kafka import Message, TopicPartition

from tests.support.clients.confluent import KIT, admin, consumer
from tests.support.waiting import wait_for

SLOW_S = 180.0
"""Patience for steps of a few seconds, while several virtual machines start on a busy machine."""


until = partial(wait_for, timeout_s=SLOW_S, pause_s=0.2)
"""Wait for a condition; those of these suites ask other processes, so they are not looked at all the time."""


def partitions(bootstrap: str) -> dict[str, int]:
    """Partition counts by topic."""
    return {name: len(topic.partitions) for name, topic in admin(bootstrap).list_topics(timeout=30).topics.items()}


def topic_config(bootstrap: str, topic: str, key: str) -> str:
    """The value that a config of a topic has."""
    return str(KIT(bootstrap).configs(topic)[key])


class Reader:
    """Reads the committed records of a topic from its beginning, without a group, until it is closed.

    Attributes:
        messages: what was read, in the order in which it came.
    """

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.messages: list[Message] = []
        self.topic = topic
        until(lambda: topic in partitions(bootstrap), f"the topic {topic}")
        self._consumer = consumer(bootstrap, isolation_level="read_committed", reconnect_backoff_max_ms=500)
        count = partitions(bootstrap)[topic]
        self._consumer.assign([TopicPartition(topic, partition, 0) for partition in range(count)])
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"reader of {topic}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.is_set():
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                self.messages.append(message)

    def values(self) -> list[str]:
        return [message.value().decode() for message in list(self.messages)]

    def wait(self, wanted: set[str], show: Any = str) -> None:
        """Wait until each of the values was read."""

        def missing() -> str:
            left = sorted(wanted - set(self.values()))
            return f"{len(left)} of {len(wanted)} were not read from {self.topic}: {left[:5]} …\n{show()}"

        what = f"{len(wanted)} values of {self.topic}"
        until(lambda: wanted <= set(self.values()), what, show=missing)

    def repeated(self) -> dict[str, int]:
        """The values that were read more than once."""
        return {value: times for value, times in Counter(self.values()).items() if times > 1}

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        self._consumer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
