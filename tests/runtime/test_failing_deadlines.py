"""A bug in one deadline of a coordinator: it is reported, and the deadlines behind it are met."""

import pytest

from tests.runtime.test_woken_fetches import World


class Failing:
    """A coordinator's ``advance`` that fails the first time, as a bug in one deadline does."""

    def __init__(self, coordinator):
        self.advance, self.calls = coordinator.advance, 0
        coordinator.advance = self

    def __call__(self, *times):
        self.calls += 1
        if self.calls == 1:
            raise LookupError("a bug of ours")
        self.advance(*times)


class Slotted:
    """Stands before an object whose methods cannot be replaced."""

    def __init__(self, whole):
        self._whole = whole

    def __getattr__(self, name):
        return getattr(self._whole, name)


def test_the_groups_driver_goes_on():
    world = World()
    world.driver.coordinator = Slotted(world.driver.coordinator)
    failing = Failing(world.driver.coordinator)
    first, second = world.park(10), world.park(20)
    world.advance(10)
    assert [event for event, _ in world.log.lines] == ["a deadline of a group failed"]
    world.advance(20)
    assert world.answered == [first, second] and failing.calls == 2


@pytest.mark.asyncio
async def test_the_transactions_driver_goes_on(world):
    transactions = world.transactions
    transactions.coordinator = Slotted(transactions.coordinator)
    failing = Failing(transactions.coordinator)
    transactions._ring()
    assert [event for event, _ in world.log.lines] == ["a deadline of a transaction failed"]
    transactions._ring()
    assert failing.calls == 2
