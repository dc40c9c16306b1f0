"""Nothing is left to open files with: the log goes on as far as it can, loses nothing, and recovers by itself."""

from __future__ import annotations

import errno
import io
import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.app import Broker
from ottla.broker.engine import Unknown
from ottla.broker.settings import Settings
from ottla.observe import logs
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from tests.hostile.victim import Victim
from tests.support.client import Client, batch

TICKS_S = 0.6
"""Long enough for the keeper to try twice to bring to segments what was acknowledged."""


@contextmanager
def nothing_to_open_with(pid: int) -> Iterator[None]:
    """Every open of a file or a connection by this process fails with EMFILE, as if all descriptors were taken."""
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE, (8, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


def delete_records(client: Client, topic: str, offset: int) -> int:
    place = {"partition_index": 0, "offset": offset}
    topics = [{"name": topic, "partitions": [place]}]
    answer = client.call(ApiKey.DELETE_RECORDS, 2, topics=topics, timeout_ms=5_000)
    return int(answer.topics[0].partitions[0].error_code)


def use_everything(client: Client, topic: str) -> None:
    """Have the modules imported that the broker imports when they are first used."""
    assert client.produce(topic).error_code == client.fetch(topic).error_code == client.offset(topic).error_code == 0
    assert delete_records(client, topic, 0) == 0


def wait_for(condition: Any, timeout_s: float = 20) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.02)


@pytest.mark.e2e
@pytest.mark.parametrize("level", ["info", "warning"])
def test_without_descriptors_the_broker_goes_on_and_loses_nothing(tmp_path: Path, level: str) -> None:
    with Victim(tmp_path / "data", arguments=("--log-level", level)) as victim:
        with Client(victim.port) as client:
            old, new = client.topic(), client.topic()
            for _ in range(3):
                assert client.produce(old).error_code == 0
            use_everything(client, old)
            with nothing_to_open_with(victim.pid):
                # A checkpoint, with new names in directories that cannot be opened to sync them.
                assert delete_records(client, old, 1) == ErrorCode.KAFKA_STORAGE_ERROR
                refused = {ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR}
                kept = [client.produce(new, batch(b"%d" % number)).error_code for number in range(5)]
                time.sleep(TICKS_S)
                kept += [client.produce(new, batch(b"%d" % number)).error_code for number in range(5)]
                assert set(kept) <= refused
                assert client.fetch(old).error_code in refused
            assert victim.is_running, victim.log_text()
            wait_for(lambda: client.produce(new, batch(b"again")).error_code == 0)
            wait_for(lambda: delete_records(client, old, 2) == 0)
            acknowledged = client.offset(new).offset
            assert acknowledged == kept.count(0) + 1
        assert victim.stop() == 0
        victim.restart()
        with Client(victim.port) as client:
            assert client.offset(new).offset == acknowledged
            assert client.offset(old, -2).offset == 2


@pytest.mark.e2e
def test_new_logs_are_acknowledged_while_their_segments_cannot_be_made(tmp_path: Path) -> None:
    with Victim(tmp_path / "data") as victim, Client(victim.port) as client:
        topic = client.topic()
        use_everything(client, client.topic())
        with nothing_to_open_with(victim.pid):
            for _ in range(3):
                assert client.produce(topic).error_code == 0
                time.sleep(TICKS_S / 2)
            assert client.fetch(topic).error_code == 0
        segment = tmp_path / "data" / "logs" / f"{topic}-0" / f"{0:020d}.log"
        wait_for(lambda: segment.exists() and segment.stat().st_size > 0)


class Failing:
    """A log that cannot write, as when what it needs cannot be imported."""

    level = "warning"

    def error(self, event: str, **fields: Any) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    debug = info = warning = lambda self, event, **fields: None


async def test_whatever_fails_on_the_way_a_failed_broker_is_told_to_end(tmp_path: Path) -> None:
    broker = Broker(Settings(), directory=None, host="127.0.0.1", port=0, log=Failing())
    ended: list[bool] = []
    broker.on_fatal = lambda: ended.append(True)
    await broker.start()
    try:
        with pytest.raises(OSError, match="Too many open files"):
            broker._engine.on_fatal(Unknown("syncing the journal: input/output error"))
        assert ended == [True]
    finally:
        await broker.stop()


def test_a_line_is_written_in_words_where_nothing_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*arguments: Any) -> Any:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(logs, "_structlog", failing)
    stream = io.StringIO()
    logs.logger(level="warning", stream=stream).error("Storage failed", reason="it is broken")
    assert stream.getvalue() == "[error] Storage failed {'reason': 'it is broken'}\n"
