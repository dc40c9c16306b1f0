"""A bug in one deadline of a coordinator: it is reported, and the deadlines behind it are met."""

import pytest

from ottla.broker.core.groups.config import GroupConfig
from ottla.broker.core.groups.coordinator import GroupCoordinator
from ottla.broker.core.transactions.coordinator import TransactionCoordinator
from ottla.broker.settings import Settings
from ottla.protocol.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from tests.runtime.test_woken_fetches import World


class Failing:
    """``advance`` fails the first time, as a bug in one deadline does."""

    calls = 0

    def advance(self, *times):
        self.calls += 1
        if self.calls == 1:
            raise LookupError("a bug of ours")
        super().advance(*times)


class Groups(Failing, GroupCoordinator):
    """Of groups."""


class Transactions(Failing, TransactionCoordinator):
    """Of transactions."""


@pytest.mark.parametrize(
    ("topic", "coordinator"),
    [
        (OFFSETS_TOPIC, Groups(GroupConfig(), lambda: "id")),
        (TRANSACTIONS_TOPIC, Transactions(Settings(), lambda: None)),
    ],
)
def test_the_host_goes_on(topic, coordinator):
    world = World()
    world.host.add(topic, coordinator)
    first, second = world.park(10), world.park(20)
    world.advance(10)
    assert [(event, fields["of"]) for event, fields in world.log.lines] == [
        ("a deadline failed", type(coordinator).__name__)
    ]
    world.advance(10)
    assert world.answered == [first, second] and coordinator.calls == 2
