"""Clients on an engine whose records are not here when they are asked for, and whose appends take long or fail."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest

from ottla.broker import app
from ottla.testing import Broker, BrokerProcess
from tests.e2e.inside import Staged
from tests.e2e.test_groups import LIFE
from tests.e2e.test_produce_and_read import test_a_batch_near_the_limit, test_acks, test_codecs  # noqa: F401
from tests.storage.late_engine import LateEngine
from tests.support.kit import kit_of, produce

pytestmark = pytest.mark.e2e


@pytest.fixture
def engine() -> LateEngine:
    return LateEngine(seed=1, new_uuid=uuid4, delay_s=0.02)


@pytest.fixture
def broker(engine: LateEngine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    monkeypatch.setattr(app, "Broker", partial(app.Broker, engine=engine))
    with Broker() as broker:
        yield broker
    assert engine.lateness.late_reads


# One commit that fails costs a member on librdkafka its session: it asks for another coordinator behind its own long
# polls, tries the commit on the one that it has just called dead, and so on.
@pytest.mark.parametrize(("kind", "failing"), [("ottla", 0.0), ("ottla", 0.05), ("confluent", 0.0)])
def test_life_of_a_group(kind: str, failing: float, engine: LateEngine, broker: Broker, name: str) -> None:
    engine.failing = failing
    for scenario in LIFE:
        Staged(kind, broker, f"{name}-{scenario.__name__}").play(scenario)
    assert bool(engine.failed_appends) is (failing > 0)


class LateProcess(BrokerProcess):
    """A broker in a process of its own, on a directory that is read late."""

    def command(self) -> list[str]:
        return ["tests.storage.late_cli" if word == "ottla.cli" else word for word in super().command()]


@pytest.mark.parametrize("on_disk", [True, False])
def test_a_process(on_disk: bool, tmp_path: Path) -> None:
    wanted = [str(number) for number in range(200)]
    with LateProcess(tmp_path if on_disk else None, topics={"t": 1}) as broker:
        produce(broker.bootstrap_servers, "t", wanted)
        rows = kit_of("confluent", broker.bootstrap_servers).read({("t", 0): 0}, len(wanted))
    assert [row.value.decode() for row in rows] == wanted
