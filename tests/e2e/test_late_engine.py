"""Clients on an engine whose records are not here when they are asked for, and whose appends take long or fail."""

from collections.abc import Iterator
from functools import partial
from uuid import uuid4

import pytest

from ottla.broker import app
from ottla.testing import Broker
from tests.e2e import confluent_client, group_life, ottla_client
from tests.e2e.cast import Cast
from tests.e2e.test_produce_and_read import test_a_batch_near_the_limit, test_acks, test_codecs  # noqa: F401
from tests.storage.late_engine import LateEngine

pytestmark = pytest.mark.e2e


@pytest.fixture
def engine() -> LateEngine:
    return LateEngine(seed=1, new_uuid=uuid4, delay_s=0.02)


@pytest.fixture
def broker(engine: LateEngine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    monkeypatch.setattr(app, "Broker", partial(app.Broker, engine=engine))
    with Broker() as broker:
        yield broker
    assert engine.late_reads


@pytest.mark.parametrize(
    ("kind", "produce"), [("ottla", ottla_client.produce), ("confluent", confluent_client.produce)]
)
@pytest.mark.parametrize("failing", [0.0, 0.05])
def test_life_of_a_group(
    failing: float, kind: str, produce: group_life.Produce, engine: LateEngine, broker: Broker, cast: Cast
) -> None:
    engine.failing = failing
    group_life.live(kind, produce, broker, cast)
    assert bool(engine.failed_appends) is (failing > 0)
