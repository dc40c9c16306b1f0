"""The transactional producer against Apache Kafka itself, with both protocols of KIP-890. Needs Java, and Kafka's jars
(or Maven, to fetch them).
"""

from collections.abc import Iterator

import pytest

from tests.clients.transaction_scenarios import SCENARIOS, Scenario
from tests.differential.real_kafka import RealKafka, skip_without_kafka

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "transaction.state.log.num.partitions": 3,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 100,
}


@pytest.fixture(scope="module", params=[1, 2], ids=["v1", "v2"])
def kafka(request: pytest.FixtureRequest) -> Iterator[str]:
    skip_without_kafka()
    with RealKafka(SETTINGS, features={"transaction.version": request.param}) as running:
        yield f"127.0.0.1:{running.port}"


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
async def test_transactions_of_kafka(kafka: str, scenario: Scenario) -> None:
    await scenario(kafka, scenario.__name__.replace("_", "-"))
