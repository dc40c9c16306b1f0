"""A data directory is its owner's alone, and nothing that lies in it leads out of it."""

from __future__ import annotations

import os
import stat
from itertools import count
from pathlib import Path
from uuid import UUID

import pytest
import pytest_asyncio
from structlog.testing import CapturingLogger

from ottla.broker.engine import ClosedToOthers, Corrupt, EngineError, LogConfig, Unavailable
from ottla.broker.storage.local.engine import LocalEngine
from ottla.broker.storage.local.snapshots import SnapshotFiles
from ottla.protocol.records import Record, TopicPartition
from ottla.testing import Broker, BrokerProcess
from tests.support.batches import build_batch

TOPIC_ID = UUID(int=7)


def engine_of(path: Path) -> LocalEngine:
    numbers = count(1)
    return LocalEngine(str(path), node_id=1, new_uuid=lambda: UUID(int=next(numbers)), threaded=False)


async def fill(engine: LocalEngine, topic: str = "t") -> None:
    """Put a record into a log, and the log into segments."""
    log = await engine.open_log(topic, TOPIC_ID, 0, LogConfig())
    log.append(build_batch([Record(value=b"v")]), count=1, max_timestamp_ms=-1, done=lambda base_offset, error: None)
    await engine.catalog.store({"topics": [topic]}, over=engine.catalog.version)
    await engine.flush()


@pytest_asyncio.fixture
async def closed(tmp_path: Path) -> Path:
    """A directory that an engine has filled and closed."""
    path = tmp_path / "data"
    engine = engine_of(path)
    await engine.open()
    await fill(engine)
    await engine.close()
    return path


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """Something that is nobody's business here."""
    path = tmp_path / "elsewhere"
    path.mkdir()
    (path / "passwd").write_text("root")
    return path


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def modes(path: Path) -> dict[int, list[str]]:
    """All that is there, by its permissions."""
    found: dict[int, list[str]] = {}
    for one in [path, *path.rglob("*")]:
        found.setdefault(mode(one), []).append(one.name)
    return found


async def test_all_that_is_made_is_the_owners_alone(closed: Path) -> None:
    assert modes(closed).keys() == {0o600, 0o700}
    assert "catalog.json" in modes(closed)[0o600]


async def test_snapshots_of_producers_are_too(tmp_path: Path) -> None:
    path = tmp_path / "producers" / "t-0.snapshot"
    assert await SnapshotFiles(path.parent).save({TopicPartition("t", 0): {}}) == {}
    assert modes(path.parent) == {0o700: ["producers"], 0o600: ["t-0.snapshot"]}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (0o755, 0o700),  # as earlier versions made it
        (0o777, 0o700),
        (0o750, 0o750),  # somebody has given it to a group
        (0o2775, 0o2770),
        (0o700, 0o700),
    ],
)
async def test_a_directory_of_before_is_closed_to_others(closed: Path, before: int, after: int) -> None:
    os.chmod(closed, before)
    os.chmod(closed / "catalog.json", 0o644)
    engine = engine_of(closed)
    await engine.open()
    await engine.catalog.store({"number": 1}, over=engine.catalog.version)
    closed_to_others = ClosedToOthers(str(closed), before, after)
    assert engine.closed_to_others == (closed_to_others if before != after else None)
    await engine.close()
    assert mode(closed) == after
    assert mode(closed / "catalog.json") == 0o600


async def test_a_directory_with_something_else_in_it_keeps_its_permissions(tmp_path: Path) -> None:
    (tmp_path / "of somebody").touch()
    os.chmod(tmp_path, 0o755)
    engine = engine_of(tmp_path)
    await engine.open()
    await engine.close()
    assert mode(tmp_path) == 0o755


async def test_a_data_directory_may_be_a_link_itself(closed: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(closed)
    engine = engine_of(link)
    await engine.open()
    assert (await engine.open_log("t", TOPIC_ID, 0, LogConfig())).log_end_offset == 1
    await engine.close()


@pytest.mark.parametrize("name", ["LOCK", "meta.properties", "catalog.json", "checkpoint", "journal", "logs"])
async def test_a_link_among_its_files_is_refused(closed: Path, tmp_path: Path, name: str) -> None:
    path, target = closed / name, tmp_path / "target"
    path.rename(target)
    path.symlink_to(target)
    with pytest.raises(Unavailable, match=f"{name} is a symbolic link"):
        await engine_of(closed).open()


@pytest.mark.parametrize("name", ["", "00000000000000000000.log"])
async def test_a_link_in_the_place_of_a_log_is_refused(closed: Path, tmp_path: Path, name: str) -> None:
    path, target = closed / "logs" / "t-0" / name, tmp_path / "target"
    path.rename(target)
    path.symlink_to(target)
    engine = engine_of(closed)
    await engine.open()
    with pytest.raises(Corrupt, match=f"{path} is a symbolic link"):
        await engine.open_log("t", TOPIC_ID, 0, LogConfig())
    await engine.close()
    assert target.exists()


async def test_nothing_is_written_through_a_link(tmp_path: Path, elsewhere: Path) -> None:
    """A file that is to be made next is named before it is there."""
    engine = engine_of(tmp_path / "data")
    await engine.open()
    await fill(engine)
    (tmp_path / "data" / "catalog.json.tmp").symlink_to(elsewhere / "passwd")
    with pytest.raises(EngineError, match=r"catalog.json.tmp is a symbolic link"):
        await engine.catalog.store({"number": 1}, over=engine.catalog.version)
    await engine.close()
    assert (elsewhere / "passwd").read_text() == "root"


async def test_deleting_a_log_never_deletes_through_a_link(tmp_path: Path, elsewhere: Path) -> None:
    data = tmp_path / "data"
    engine = engine_of(data)
    await engine.open()
    await fill(engine)
    (data / "logs" / "t-0").rename(tmp_path / "aside")
    (data / "logs" / "t-0").symlink_to(elsewhere)
    (data / "logs" / "stranger-0").symlink_to(elsewhere)
    await engine.delete_log(TopicPartition("t", 0))
    await engine.remove_orphans()
    await engine.close()
    (data / "logs" / "u-0.1-delete").symlink_to(elsewhere)
    engine = engine_of(data)
    await engine.open()
    await engine.remove_orphans()
    await engine.close()
    assert os.listdir(data / "logs") == []
    assert os.listdir(elsewhere) == ["passwd"]


def test_a_directory_of_apache_kafka_is_left_as_it_is(tmp_path: Path) -> None:
    """A server.properties of Kafka's names its log.dirs."""
    directory = tmp_path / "kafka"
    (directory / "orders-0").mkdir(parents=True)
    (directory / "meta.properties").write_text("version=1\ncluster.id=abc\nnode.id=1\n")
    directory.chmod(0o755)
    with pytest.raises(RuntimeError, match="is a data directory of Apache Kafka: choose another one") as told:
        BrokerProcess(directory).start()
    assert "ottla recover" not in str(told.value)
    assert sorted(path.name for path in directory.iterdir()) == ["meta.properties", "orders-0"]
    assert directory.stat().st_mode & 0o777 == 0o755


async def test_closing_it_is_logged(tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o755)
    log = CapturingLogger()
    for _ in range(2):  # the second time there is nothing to close
        with Broker(data_dir=tmp_path, log=log):
            pass
    told = [call.kwargs for call in log.calls if "closed now" in str(call.args)]
    assert told == [{"path": str(tmp_path), "before": "0755", "now": "0700"}]
