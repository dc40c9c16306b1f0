"""`ottla lake` killed with SIGKILL, driver and JVM, in the middle of its work: every record once in the end."""

from pathlib import Path
from random import Random

import pytest

from ottla.pipeline.topic_lake.folder import TopicFolder
from ottla.testing import BrokerProcess
from tests.pipeline.lake.lakes import rows
from tests.pipeline.modes.acknowledged import Process
from tests.pipeline.source.reading import produce

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

KILLS = 3
RECORDS = 20_000


def words(bootstrap: str, mode: str) -> list[str]:
    options = ["--trigger", "1ms", "--master", "local[2]", "--driver-memory", "1g"]
    options += ["--max-offsets-per-trigger", "500"] if mode == "stream" else []
    return ["--topic", "orders", "-b", bootstrap, "--mode", mode, *options]


def kill_in_the_middle(bootstrap: str, to: Path, random: Random) -> str:
    """Start a stream, wait for a batch or two, and kill all its processes at once; says where it was."""
    before = batches(to)
    driver = Process("lake", to.parent, "--to", str(to), *words(bootstrap, "stream"))
    driver.kill_after(lambda: batches(to), before + random.randrange(1, 3), random.random())
    left = [one.name for one in (to / "_staging").glob("*")]
    return f"{batches(to) - before} batches in, {'one begun' if left else 'none begun'}"


def batches(to: Path) -> int:
    return len(list((to / "_batches").glob("[0-9]*.json")))


def test_after_kills_every_record_is_there_once(tmp_path: Path) -> None:
    to, random = tmp_path / "orders", Random(7)
    with BrokerProcess(tmp_path / "data", topics={"orders": 3}) as broker:
        produce(broker.bootstrap_servers, "orders", RECORDS)
        said = [kill_in_the_middle(broker.bootstrap_servers, to, random) for _ in range(KILLS)]
        seen = rows(to)
        assert 0 < len(seen) < RECORDS, said
        assert set(seen.values()) == {1}, f"no reader sees a row twice, even between crash and recovery: {said}"
        arguments = words(broker.bootstrap_servers, "available-now")
        said_last = Process("lake", tmp_path, "--to", str(to), *arguments).wait()
    seen = rows(to)
    assert (len(seen), set(seen.values())) == (RECORDS, {1})
    assert {partition: sum(one == partition for one, _ in seen) for partition in range(3)} == {
        partition: len(range(partition, RECORDS, 3)) for partition in range(3)
    }
    assert not list(TopicFolder(to).staging.glob("*"))
    assert "20,000" not in said_last, "the last run wrote the rest only"
