"""Facts that no admin client shows, read from the broker's logs."""

from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, KafkaException

from ottla.protocol.records import BatchHeader, iter_batches
from ottla.testing import Broker
from tests.interop.python.harness import Scenario, Stage
from tests.support.client import Client
from tests.support.kit import kit_of
from tests.support.members import SESSION_TIMEOUT_MS


def stored_batches(broker: Broker, topic: str, partition: int = 0) -> list[BatchHeader]:
    """The headers of all batches of a partition, as they are stored."""
    with Client(broker.port) as client:
        size = 64 << 20
        told = client.fetch(topic, partition=partition, max_bytes=size, partition_max_bytes=size, max_wait_ms=5_000)
    return [header for header, _ in iter_batches(bytes(told.records))]


def generation(broker: Broker, group: str) -> int:
    """The generation of a group as it was logged last, which DescribeGroups does not have."""
    with Client(broker.port) as client:
        found = client.generations(group)
    assert found, f"group {group} has never been logged"
    return found[-1]


def refusal(action: Callable[[], object]) -> KafkaError:
    """The error with which librdkafka refuses to do something."""
    with pytest.raises(KafkaException) as caught:
        action()
    return caught.value.args[0]


class Staged(Stage):
    """A scenario of tests/interop with any client, whose group is seen from inside, too; confluent administers."""

    def __init__(self, kind: str, broker: Broker, name: str) -> None:
        servers = broker.bootstrap_servers
        admin = kit_of("confluent", servers)
        super().__init__(kit_of(kind, servers), name, admin=admin, session_ms=SESSION_TIMEOUT_MS)
        self._broker = broker

    def generation(self) -> int:
        return generation(self._broker, self.group)

    def play(self, scenario: Scenario) -> None:
        with self.closing:
            scenario(self)
