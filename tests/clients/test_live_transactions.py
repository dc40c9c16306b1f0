"""The transactional producer against a broker, by the same scenarios as against Apache Kafka."""

import pytest

from ottla.testing import Broker
from tests.clients.transaction_scenarios import SCENARIOS, Scenario

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
async def test_transactions(broker: Broker, name: str, scenario: Scenario) -> None:
    await scenario(broker.bootstrap_servers, f"{name}-{scenario.__name__.replace('_', '-')}")
