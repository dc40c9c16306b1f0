"""Groups of the included client's consumers."""

import pytest

from ottla.testing import Broker
from tests.e2e import group_life, ottla_client
from tests.e2e.cast import Cast

pytestmark = pytest.mark.e2e

KIND = "ottla"


def test_life_of_an_ottla_group(broker: Broker, cast: Cast) -> None:
    group_life.live(KIND, ottla_client.produce, broker, cast)


def test_static_ottla_members_come_back(broker: Broker, cast: Cast) -> None:
    group_life.come_back(KIND, ottla_client.produce, broker, cast)


def test_cooperative_ottla_members_do_not_stop(broker: Broker, cast: Cast) -> None:
    group_life.no_full_stop(KIND, broker, cast, reads_on=True)
