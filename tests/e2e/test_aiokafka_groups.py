"""Groups of aiokafka consumers."""

import pytest

from ottla.testing import Broker
from tests.e2e import aiokafka_client, group_life
from tests.e2e.cast import Cast

pytestmark = pytest.mark.e2e

KIND = "aiokafka"


def test_life_of_an_aiokafka_group(broker: Broker, cast: Cast) -> None:
    group_life.live(KIND, aiokafka_client.produce, broker, cast)


def test_static_aiokafka_members_come_back(broker: Broker, cast: Cast) -> None:
    group_life.come_back(KIND, aiokafka_client.produce, broker, cast)
