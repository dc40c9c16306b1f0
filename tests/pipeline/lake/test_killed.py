"""`ottla lake` killed with SIGKILL, driver and JVM, in the middle of its work: every record once in the end."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import psutil
import pytest

from ottla.clients import Producer
from ottla.pipeline.topic_lake.folder import TopicFolder
from ottla.testing import BrokerProcess
from tests.pipeline.lake.lakes import rows

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

KILLS = 3
RECORDS = 20_000
PATIENCE_S = 240.0


async def _fill(bootstrap: str) -> None:
    async with Producer(bootstrap_servers=bootstrap, linger_ms=5) as producer:
        for n in range(RECORDS):
            await producer.send("orders", b"value %d" % n, partition=n % 3)


def command(bootstrap: str, to: Path, mode: str) -> list[str]:
    options = ["--trigger", "1ms", "--master", "local[2]", "--driver-memory", "1g"]
    options += ["--max-offsets-per-trigger", "500"] if mode == "stream" else []
    words = ["lake", "--topic", "orders", "--to", str(to), "-b", bootstrap, "--mode", mode, *options]
    return [sys.executable, "-m", "ottla.cli", *words]


def kill_in_the_middle(bootstrap: str, to: Path, random: Random) -> str:
    """Start a stream, wait for a batch or two, and kill all its processes at once; says where it was."""
    before = len(batches(to))
    driver = subprocess.Popen(
        command(bootstrap, to, "stream"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    )
    deadline = time.monotonic() + PATIENCE_S
    wanted = before + random.randrange(1, 3)
    while len(batches(to)) < wanted:
        if driver.poll() is not None or time.monotonic() > deadline:
            os.killpg(driver.pid, signal.SIGKILL)
            raise AssertionError(f"no batch: {driver.communicate()[1]!r}")
        _rest(0.02)
    _rest(random.random())
    for one in [*psutil.Process(driver.pid).children(recursive=True), psutil.Process(driver.pid)]:
        one.kill()
    driver.communicate()
    left = [one.name for one in (to / "_staging").glob("*")]
    return f"{len(batches(to)) - before} batches in, {'one begun' if left else 'none begun'}"


def batches(to: Path) -> list[Path]:
    return list((to / "_batches").glob("[0-9]*.json"))


def _rest(seconds: float) -> None:
    """Let the other processes go on for a moment: it is in the middle of their work that they are to be killed."""
    subprocess.run(["sleep", f"{seconds:.3f}"], check=True)


def test_after_kills_every_record_is_there_once(tmp_path: Path) -> None:
    to, random = tmp_path / "orders", Random(7)
    with BrokerProcess(tmp_path / "data", topics={"orders": 3}) as broker:
        asyncio.run(_fill(broker.bootstrap_servers))
        said = [kill_in_the_middle(broker.bootstrap_servers, to, random) for _ in range(KILLS)]
        seen = rows(to)
        assert 0 < len(seen) < RECORDS, said
        assert set(seen.values()) == {1}, f"no reader sees a row twice, even between crash and recovery: {said}"
        done = subprocess.run(
            command(broker.bootstrap_servers, to, "available-now"), capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stdout + done.stderr
    seen = rows(to)
    assert (len(seen), set(seen.values())) == (RECORDS, {1})
    assert {partition: sum(one == partition for one, _ in seen) for partition in range(3)} == {
        partition: len(range(partition, RECORDS, 3)) for partition in range(3)
    }
    assert not list(TopicFolder(to).staging.glob("*"))
    assert "20,000" not in done.stdout, "the last run wrote the rest only"
