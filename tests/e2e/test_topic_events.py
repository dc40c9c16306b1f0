"""What becomes of topics is recorded, beside what the coordinator does."""

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from ottla.observe.events import TopicChanged, TopicDeleted
from ottla.observe.recording import open_recording
from ottla.testing import Broker

pytestmark = pytest.mark.e2e


def test_topics_that_are_created_grow_and_are_deleted(tmp_path: Path) -> None:
    path = tmp_path / "run.ottla"
    with Broker({"ottla.recorder.file": str(path)}, topics={"orders": 3}) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.create_topics([NewTopic("refunds", 2)])["refunds"].result(30)
        admin.create_topics([NewTopic("nothing", 2)], validate_only=True)["nothing"].result(30)
        admin.create_partitions([NewPartitions("orders", 6)])["orders"].result(30)
        admin.delete_topics(["refunds"])["refunds"].result(30)
    told = [one for one in open_recording(path).events() if isinstance(one, TopicChanged | TopicDeleted)]
    changed = [(one.topic, one.partitions_before, one.partitions) for one in told if isinstance(one, TopicChanged)]
    assert changed == [("orders", 0, 3), ("refunds", 0, 2), ("orders", 3, 6)]
    assert isinstance(told[-1], TopicDeleted) and told[-1].topic == "refunds" and len(told) == 4
    assert all(one.at_ms and one.wall_ms for one in told)
