"""What becomes of topics is recorded, beside what the coordinator does."""

import pytest
from confluent_kafka.admin import NewPartitions, NewTopic
from msgspec import msgpack

from ottla.testing import Broker
from tests.support.clients import confluent

pytestmark = pytest.mark.e2e


def test_topics_that_are_created_grow_and_are_deleted() -> None:
    with Broker(topics={"orders": 3}) as broker:
        admin = confluent.admin(broker.bootstrap_servers)
        admin.create_topics([NewTopic("refunds", 2)])["refunds"].result(30)
        admin.create_topics([NewTopic("nothing", 2)], validate_only=True)["nothing"].result(30)
        admin.create_partitions([NewPartitions("orders", 6)])["orders"].result(30)
        admin.delete_topics(["refunds"])["refunds"].result(30)
        found = [msgpack.decode(data) for _, data in broker.run(lambda: broker._running.recorder.events(""))]
    told = [one for one in found if one["event"].startswith("Topic")]
    assert [(one["event"], one["topic"], one.get("partitions_before"), one.get("partitions")) for one in told] == [
        ("TopicChanged", "orders", 0, 3),
        ("TopicChanged", "refunds", 0, 2),
        ("TopicChanged", "orders", 3, 6),
        ("TopicDeleted", "refunds", None, None),
    ]
    assert all(one["at_ms"] and one["wall_ms"] for one in told)
