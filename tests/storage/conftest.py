"""Engines to test, and batches to put into them."""

import asyncio
import itertools
import uuid

import pytest
import pytest_asyncio

from examples.cluster.postgresql import programs
from ottla.broker.engine import LogConfig
from ottla.broker.storage.local.engine import LocalEngine
from ottla.broker.storage.local.sizes import Sizes
from ottla.broker.storage.memory import MemoryEngine
from ottla.protocol.records import Record
from tests.storage.database_clients import LOGS, Client
from tests.storage.late_engine import LateEngine, LateLocalEngine
from tests.storage.simulated_database import SimBench
from tests.storage.simulated_disk import SimulatedDisk
from tests.storage.simulated_engine import SMALL, Simulated
from tests.support.batches import build_batch

TOPIC_ID = uuid.UUID(int=7)


class Appends:
    """Appends batches to a log and keeps what was reported of them, in the order of the reports."""

    def __init__(self):
        self.reports = []
        self._added = 0
        self._waiting = []

    def batch(self, values, timestamp_ms=1000, **options):
        """A batch with the given values, a millisecond apart."""
        records = [Record(0, timestamp_ms + index, None, value) for index, value in enumerate(values)]
        return build_batch(records, **options)

    def add(self, log, *values, timestamp_ms=1000, **options):
        """Append a batch of ``values``; return its base offset."""
        self._added += 1
        return log.append(
            self.batch(values, timestamp_ms, **options),
            count=len(values),
            max_timestamp_ms=timestamp_ms + len(values) - 1,
            done=self.done,
        )

    async def outcome(self, log, *values, **options):
        """Append a batch and wait until all were reported; tell why it failed, None if it did not."""
        self.add(log, *values, **options)
        await self.reported(self._added)
        return self.reports[-1][1]

    def done(self, base_offset, error):
        self.reports.append((base_offset, error))
        for count, reported in self._waiting:
            if len(self.reports) >= count and not reported.done():
                reported.set_result(None)

    async def reported(self, count):
        """Wait until ``count`` appends were reported."""
        if len(self.reports) < count:
            reported = asyncio.get_running_loop().create_future()
            self._waiting.append((count, reported))
            async with asyncio.timeout(20):
                await reported

    def acknowledged(self):
        return [offset for offset, error in self.reports if error is None]


class Harness:
    """One engine under test; ``restart`` closes it and opens what it left behind."""

    def __init__(self, make):
        self.make = make
        self.engine = make()

    async def open(self):
        await self.engine.open()
        return self.engine

    async def restart(self):
        await self.engine.close()
        self.engine = self.make()
        return await self.open()

    async def log(self, topic="t", partition=0, topic_id=TOPIC_ID, **config):
        return await self.engine.open_log(topic, topic_id, partition, LogConfig(**config))


@pytest.fixture
def appends():
    return Appends()


@pytest.fixture
def new_uuid():
    numbers = itertools.count(1)
    return lambda: uuid.UUID(int=next(numbers))


@pytest.fixture(params=["memory", "late", "local", "late-local", "local-inline", "simulated"])
def harness(request, tmp_path, new_uuid):
    """Every kind of engine, not yet open."""
    if request.param in ("memory", "late"):
        engine = MemoryEngine(new_uuid=new_uuid) if request.param == "memory" else LateEngine(seed=1, new_uuid=new_uuid)
        return Harness(lambda: engine)
    if request.param == "late-local":
        directory = str(tmp_path / "data")
        return Harness(lambda: LateLocalEngine(directory, seed=1, node_id=1, new_uuid=new_uuid))
    files = SimulatedDisk(seed=1) if request.param == "simulated" else None
    directory = "/data" if files else str(tmp_path / "data")
    threaded = request.param == "local"
    sizes = Sizes(**SMALL) if files else Sizes()
    return Harness(
        lambda: LocalEngine(directory, node_id=1, new_uuid=new_uuid, files=files, threaded=threaded, sizes=sizes)
    )


@pytest_asyncio.fixture
async def opened(harness):
    """Every kind of engine, open."""
    await harness.open()
    yield harness
    await harness.engine.close()


@pytest_asyncio.fixture
async def log(opened):
    """A log of such an engine, with nothing in it."""
    return await opened.log()


@pytest_asyncio.fixture
async def sim(new_uuid):
    """An engine on a simulated disk, open."""
    simulated = Simulated(new_uuid)
    await simulated.open()
    yield simulated
    simulated.work_again()
    await simulated.engine.close()


@pytest.fixture(scope="session")
def pairs():
    """Servers of PostgreSQL, where it is installed."""
    pytest.importorskip("asyncpg", reason="asyncpg is not installed: pip install 'ottla[cluster]'")
    if programs() is None:
        pytest.skip("PostgreSQL is not installed")
    from tests.storage.postgres_bench import Pairs

    pairs = Pairs()
    yield pairs
    pairs.close()


@pytest.fixture(params=["simulated", "postgresql"])
def bench(request):
    """A database with three logs, as the tests of the port's contract want it."""
    if request.param == "simulated":
        yield SimBench(LOGS, "first")
        return
    pairs = request.getfixturevalue("pairs")
    from tests.storage.postgres_bench import PostgresBench

    bench = PostgresBench(pairs.get(), LOGS, "first")
    yield bench
    bench.close()


@pytest.fixture
def one(bench: SimBench) -> Client:
    """A connection to it."""
    return Client(bench)


@pytest.fixture
def two(bench: SimBench) -> Client:
    """Another."""
    return Client(bench)
