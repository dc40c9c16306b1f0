"""Groups of kafka-python consumers."""

import pytest

from ottla.testing import Broker
from tests.e2e import group_life, kafka_python_client
from tests.e2e.cast import Cast

pytestmark = pytest.mark.e2e

KIND = "kafka-python"


def test_life_of_a_kafka_python_group(broker: Broker, cast: Cast) -> None:
    group_life.live(KIND, kafka_python_client.produce, broker, cast)


def test_static_kafka_python_members_come_back(broker: Broker, cast: Cast) -> None:
    group_life.come_back(KIND, kafka_python_client.produce, broker, cast)


def test_cooperative_kafka_python_members_do_not_stop(broker: Broker, cast: Cast) -> None:
    # kafka-python keeps its partitions and its place in them, but its poll() returns nothing before it has joined.
    group_life.no_full_stop(KIND, broker, cast, reads_on=False)
