"""Groups of the consumers of one client; see `group_life`."""

import pytest

from ottla.testing import Broker
from tests.e2e import group_life
from tests.support.cast import Cast
from tests.support.kit import KINDS

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("kind", KINDS)
def test_life_of_a_group(kind: str, broker: Broker, cast: Cast) -> None:
    group_life.live(kind, broker, cast)


@pytest.mark.parametrize("kind", KINDS)
def test_static_members_come_back(kind: str, broker: Broker, cast: Cast) -> None:
    group_life.come_back(kind, broker, cast, then_expire=kind == "confluent")


# kafka-python keeps its partitions and its place in them, but its poll() returns nothing before it has joined; aiokafka
# has no cooperative rebalancing.
@pytest.mark.parametrize(("kind", "reads_on"), [("confluent", True), ("kafka-python", False), ("ottla", True)])
def test_cooperative_members_do_not_stop(kind: str, reads_on: bool, broker: Broker, cast: Cast) -> None:
    group_life.no_full_stop(kind, broker, cast, reads_on=reads_on)
