"""Groups of confluent-kafka consumers."""

import pytest

from ottla.testing import Broker
from tests.e2e import confluent_client, group_life
from tests.e2e.cast import Cast

pytestmark = pytest.mark.e2e

KIND = "confluent"


def test_life_of_a_confluent_group(broker: Broker, cast: Cast) -> None:
    group_life.live(KIND, confluent_client.produce, broker, cast)


def test_static_confluent_members_come_back(broker: Broker, cast: Cast) -> None:
    group_life.come_back(KIND, confluent_client.produce, broker, cast, then_expire=True)


def test_cooperative_confluent_members_do_not_stop(broker: Broker, cast: Cast) -> None:
    group_life.no_full_stop(KIND, broker, cast, reads_on=True)
