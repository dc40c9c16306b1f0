"""Changes of topics are recorded beside the coordinator's events."""

from pathlib import Path

import pytest

from ottla.broker.core.events.beside import TopicChanged
from ottla.broker.core.events.inputs import TopicDeleted
from ottla.observe.recording import open_recording
from ottla.testing import Broker
from tests.support.clients import confluent

pytestmark = pytest.mark.e2e


def test_topics_that_are_created_grow_and_are_deleted(tmp_path: Path) -> None:
    path = tmp_path / "run.ottla"
    with Broker({"ottla.recorder.file": str(path)}, topics={"orders": 3}) as broker:
        kit = confluent.KIT(broker.bootstrap_servers)
        kit.create("refunds", 2)
        kit.create("nothing", 2, validate_only=True)
        kit.grow("orders", 6)
        kit.delete("refunds")
    found = [one for one in open_recording(path).events() if isinstance(one, (TopicChanged, TopicDeleted))]
    assert [(one.topic, isinstance(one, TopicDeleted)) for one in found] == [
        ("orders", False),
        ("refunds", False),
        ("orders", False),
        ("refunds", True),
    ]
    counts = [(one.partitions_before, one.partitions) for one in found if isinstance(one, TopicChanged)]
    assert counts == [(0, 3), (0, 2), (3, 6)]
    assert all(one.at_ms and one.wall_ms for one in found)
