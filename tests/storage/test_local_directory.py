"""The directory of a local engine: locks, strangers, and use by a real loop."""

import asyncio
import os

import pytest
import pytest_asyncio

from ottla.broker.engine import Corrupt, InUse, LogConfig, Unavailable
from ottla.broker.storage.local.engine import LocalEngine
from ottla.broker.storage.local.sizes import Sizes
from ottla.protocol.records import Record
from tests.storage.simulated_engine import TOPIC_ID, values
from tests.support.batches import build_batch


def local(path, new_uuid, **options):
    return LocalEngine(str(path), node_id=1, new_uuid=new_uuid, **options)


@pytest_asyncio.fixture
async def engine(tmp_path, new_uuid):
    """An engine in ``tmp_path``, open."""
    engine = local(tmp_path, new_uuid)
    await engine.open()
    yield engine
    await engine.close()


async def test_a_second_engine_is_refused_and_told_who_holds_it(tmp_path, new_uuid):
    first = local(tmp_path / "deep" / "data", new_uuid)
    await first.open()
    with pytest.raises(InUse, match=rf"pid {os.getpid()}\)"):
        await local(tmp_path / "deep" / "data", new_uuid).open()
    await first.close()
    second = local(tmp_path / "deep" / "data", new_uuid)
    await second.open()
    await second.close()


async def test_another_nodes_directory_is_refused(engine, tmp_path, new_uuid):
    await engine.close()
    other = LocalEngine(str(tmp_path), node_id=2, new_uuid=new_uuid)
    with pytest.raises(Corrupt, match="belongs to node 1, this is node 2"):
        await other.open()
    # A refused engine holds nothing.
    await engine.open()


@pytest.mark.parametrize("name", ["catalog.json", "meta.properties"])
@pytest.mark.parametrize("content", [b"", b"{}", b'{"format": 99}', b"format=99\ncluster.id=x\nnode.id=1"])
async def test_files_that_make_no_sense_are_named(engine, tmp_path, new_uuid, name, content):
    await engine.close()
    (tmp_path / name).write_bytes(content)
    with pytest.raises(Corrupt, match=name):
        await local(tmp_path, new_uuid).open()


async def test_a_place_where_no_directory_can_be_is_refused(tmp_path, new_uuid):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(Unavailable, match="file/data"):
        await local(tmp_path / "file" / "data", new_uuid).open()


async def test_many_writers_at_once_keep_their_order(engine, appends):
    logs = [await engine.open_log("t", TOPIC_ID, partition, LogConfig(segment_bytes=20_000)) for partition in range(4)]
    seen = {log.tp: [] for log in logs}

    async def produce(log, client):
        loop = asyncio.get_running_loop()
        for number in range(100):
            done = loop.create_future()

            def report(base_offset, error, log=log, done=done):
                seen[log.tp].append(base_offset)
                done.set_result(error)

            batch = build_batch([Record(0, number, None, b"%d %d" % (client, number))])
            log.append(batch, count=1, max_timestamp_ms=number, done=report)
            assert await done is None

    await asyncio.gather(*(produce(log, client) for log in logs for client in range(5)))
    for log in logs:
        assert seen[log.tp] == list(range(500))
        written = [value.split() for value in values(log)]
        for client in range(5):
            assert [int(n) for c, n in written if int(c) == client] == list(range(100))


async def test_a_loop_that_ends_without_closing_leaves_what_was_acknowledged(tmp_path, new_uuid):
    def run():
        async def life():
            engine = local(tmp_path, new_uuid)
            await engine.open()
            log = await engine.open_log("t", TOPIC_ID, 0, LogConfig())
            done = asyncio.get_running_loop().create_future()
            log.append(
                build_batch([Record(value=b"kept")]),
                count=1,
                max_timestamp_ms=-1,
                done=lambda base_offset, error: done.set_result(error),
            )
            await done
            # Still on its way when the loop is closed.
            log.append(build_batch([Record()]), count=1, max_timestamp_ms=-1, done=lambda base_offset, error: None)
            return engine

        return asyncio.run(life())

    abandoned = await asyncio.to_thread(run)
    os.close(abandoned._lock)
    engine = local(tmp_path, new_uuid)
    await engine.open()
    assert values(await engine.open_log("t", TOPIC_ID, 0, LogConfig()))[0] == b"kept"
    await engine.close()


async def test_memory_is_bounded_when_segments_cannot_keep_up(tmp_path, new_uuid, appends):
    engine = local(tmp_path, new_uuid, sizes=Sizes(tail_bytes=200_000, gulp_bytes=50_000))
    await engine.open()
    log = await engine.open_log("t", TOPIC_ID, 0, LogConfig())
    most = 0
    for number in range(100):
        appends.add(log, b"%d" % number * 10_000)
        if number % 10 == 9:
            await appends.reported(number + 1)
            most = max(most, engine._gate.held_bytes)
    await engine.close()
    assert most < 2_000_000
    assert engine._gate.held_bytes == 0
    assert appends.acknowledged() == list(range(100))


async def test_a_deleted_log_holds_nobody_back(engine, appends):
    log = await engine.open_log("t", TOPIC_ID, 0, LogConfig())
    for _ in range(50):
        appends.add(log, b"v" * 1000)
    await asyncio.gather(engine.delete_log(log.tp), appends.reported(50))
    assert engine._gate.held_bytes == 0


async def test_what_is_asked_of_a_closed_engine_fails(engine, appends):
    log = await engine.open_log("t", TOPIC_ID, 0, LogConfig())
    await appends.outcome(log, b"v")
    trimming = asyncio.ensure_future(log.trim(1))
    rolling = asyncio.ensure_future(log.roll())
    closing = asyncio.ensure_future(engine.close())
    results = await asyncio.gather(trimming, rolling, closing, return_exceptions=True)
    assert results[2] is None
    assert all(result in (None, 1) or isinstance(result, Unavailable) for result in results)
    with pytest.raises(Unavailable):
        await engine.catalog.store({}, over=engine.catalog.version)
    with pytest.raises(Unavailable):
        await log.trim(1)
