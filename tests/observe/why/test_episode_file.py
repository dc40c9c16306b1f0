"""The history of groups in a data directory: what is read again, what a crash may leave, how long the file gets."""

from __future__ import annotations

import asyncio
import json
import os
import random
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer

from ottla.broker.clock import LoopClock
from ottla.clients import Admin
from ottla.observe.why.episode_file import MAGIC, EpisodeFile, read_rows
from ottla.observe.why.store import Store
from ottla.testing import BrokerProcess
from tests.observe.http.fakes import Lines
from tests.observe.why.test_history import episode, read
from tests.support.waiting import wait_for


async def opened(path: Path, budget_bytes: int = 1 << 20) -> tuple[EpisodeFile, Store, Lines]:
    log = Lines()
    store = Store(budget_bytes)
    file = EpisodeFile(path, store, LoopClock(asyncio.get_running_loop()), log)
    await file.begin()
    return file, store, log


async def test_episodes_are_there_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "history"
    for run in range(3):
        file, store, log = await opened(path)
        assert [one.number for one in read(store, "g")] == list(range(1, 2 * run + 1))
        for number in (2 * run + 1, 2 * run + 2):
            store.keep(episode("g", number))
        store.keep(episode("other", run + 1))
        await file.close()
        assert log.told == []
    _, store, _ = await opened(path)
    assert read(store, "g") == [episode("g", number) for number in range(1, 7)]
    assert store.last_number("other") == 3
    assert os.stat(path).st_mode & 0o777 == 0o600


async def test_what_became_known_later_takes_the_place_of_what_was_written(tmp_path: Path) -> None:
    file, store, _ = await opened(tmp_path / "history")
    for number in (1, 2):
        store.keep(episode("g", number))
    changed = episode("g", 1, 3)
    store.replace(changed)
    await file.close()
    _, store, _ = await opened(tmp_path / "history")
    assert read(store, "g") == [changed, episode("g", 2)]


async def test_whatever_a_crash_leaves_the_whole_episodes_are_read_and_more_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / "history"
    file, store, _ = await opened(path)
    for number in range(1, 6):
        store.keep(episode("g", number))
    await file.close()
    whole = path.read_bytes()
    ends = [read_rows(whole[:size])[1] for size in range(len(whole) + 1)]
    assert len({*ends}) == 7, "nothing, the first line, and five episodes"
    choice = random.Random(1)
    for size in choice.sample(range(len(whole)), 30):
        torn = bytearray(whole)
        torn[size:] = choice.randbytes(choice.choice((0, 3, 200)))
        path.write_bytes(torn)
        file, store, log = await opened(path)
        kept = [one.number for one in read(store, "g")]
        assert kept == list(range(1, len(kept) + 1)) and len(kept) == max(sorted({*ends}).index(ends[size]) - 1, 0)
        store.keep(episode("g", 9))
        await file.close()
        _, store, _ = await opened(path)
        assert [one.number for one in read(store, "g")] == [*kept, 9]
        assert log.told == []


async def test_the_file_is_written_anew_before_it_takes_twice_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "history"
    file, store, _ = await opened(path, 20_000)
    for number in range(1, 400):
        store.keep(episode("g", number, 5))
        await file.flush()
        assert path.stat().st_size <= 2 * 20_000
    kept = read(store, "g")
    await file.close()
    _, store, _ = await opened(path, 20_000)
    assert kept[-1].number == 399
    assert read(store, "g")[-len(kept) :] == kept
    assert os.listdir(tmp_path) == ["history"]


async def test_a_file_that_cannot_be_written_anew_stays_as_it_was_with_nothing_beside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, store, _ = await opened(tmp_path / "history", 20_000)
    monkeypatch.setattr(os, "replace", lambda *paths: os.open(tmp_path, os.O_WRONLY))  # which no folder allows
    for number in range(1, 400):
        store.keep(episode("g", number, 5))
        await file.flush()
    assert store.on_row is None
    assert os.listdir(tmp_path) == ["history"]
    _, store, _ = await opened(tmp_path / "history", 20_000)
    assert len(read(store, "g")) > 10


@pytest.mark.parametrize("kind", ["a directory", "a link", "something else"])
async def test_a_file_that_is_none_of_ours_is_told_of_or_begun_anew(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "history"
    if kind == "a directory":
        path.mkdir()
    elif kind == "a link":
        (tmp_path / "elsewhere").write_bytes(b"precious")
        path.symlink_to(tmp_path / "elsewhere")
    else:
        path.write_bytes(b"something else")
    file, store, log = await opened(path)
    store.keep(episode("g", 1))
    await file.close()
    if kind == "something else":
        assert log.told == [] and path.read_bytes().startswith(MAGIC)
        return
    [(said, fields)] = log.of("error")
    assert "is not kept any more" in said and fields.keys() == {"path", "reason"}
    if kind == "a link":
        assert (tmp_path / "elsewhere").read_bytes() == b"precious"


@pytest.mark.e2e
def test_the_broker_tells_after_a_restart_what_was_before(tmp_path: Path) -> None:
    with (
        BrokerProcess(tmp_path, topics=["orders"], settings={"group.initial.rebalance.delay.ms": 0}) as broker,
        KafkaConsumer("orders", group_id="g", bootstrap_servers=broker.bootstrap_servers) as consumer,
    ):
        # A leader that does not know the topic's partitions yet assigns nothing, and does not notice later.
        wait_for(lambda: consumer.partitions_for_topic("orders"), "the topic's partitions")
        wait_for(lambda: consumer.poll(100) or consumer.assignment(), "an assignment")
        before = asyncio.run(history(broker.bootstrap_servers))
        broker.restart()
        after = asyncio.run(history(broker.bootstrap_servers))
    assert before and [one["number"] for one in after[: len(before)]] == [one["number"] for one in before]
    assert after[0]["triggers"] == before[0]["triggers"]


async def history(bootstrap_servers: str) -> list[dict[str, Any]]:
    async with Admin(bootstrap_servers=bootstrap_servers) as admin:
        told = await admin.describe_group_history("g")
    episodes: list[dict[str, Any]] = json.loads(told)["episodes"]
    return episodes
