"""The ottla command against a broker in this process."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ottla.cli.main import command
from ottla.clients import Consumer
from ottla.testing.broker import Broker


class Ottla:
    """Runs `ottla …` and looks at what it printed."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def run(self, *arguments: str, expect: int = 0) -> Result:
        """In this process; fails the test on another exit code."""
        result = CliRunner(env={"OTTLA_BOOTSTRAP_SERVERS": self.bootstrap}).invoke(
            command, arguments, prog_name="ottla"
        )
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == expect, result.output
        return result

    def rows(self, *arguments: str) -> list[list[str]]:
        """The words of each line of standard output."""
        return [line.split() for line in self.run(*arguments).stdout.splitlines()]

    def json(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments, "--format", "json").stdout)

    def send(self, topic: str, data: bytes, *options: str) -> Result:
        """`ottla produce` of a file."""
        with tempfile.NamedTemporaryFile() as file:
            file.write(data)
            file.flush()
            return self.run("produce", topic, file.name, *options)

    def read(self, *arguments: str) -> bytes:
        """What `ottla consume` prints."""
        return self.run("consume", *arguments).stdout_bytes

    def process(self, *arguments: str, given: bytes = b"", expect: int = 0) -> subprocess.CompletedProcess[bytes]:
        """In a process of its own, with real pipes."""
        environment = {**os.environ, "OTTLA_BOOTSTRAP_SERVERS": self.bootstrap}
        done = subprocess.run(
            [sys.executable, "-m", "ottla.cli", *arguments],
            input=given,
            capture_output=True,
            env=environment,
            timeout=60,
        )
        assert done.returncode == expect, done.stderr.decode()
        return done


@pytest.fixture
def broker(ottla_broker_factory: Callable[..., Broker]) -> Broker:
    """With a topic ``orders`` of three partitions."""
    return ottla_broker_factory(topics={"orders": 3})


@pytest.fixture
def ottla(broker: Broker) -> Ottla:
    return Ottla(broker.bootstrap_servers)


@contextmanager
def membership(bootstrap: str, group: str, client_id: str) -> Iterator[None]:
    """A member of a group, on an event loop of its own, for as long as the block lasts."""
    joined: Future[None] = Future()
    loop = asyncio.new_event_loop()
    leaving = asyncio.Event()

    async def stay() -> None:
        try:
            async with Consumer(
                "orders",
                bootstrap_servers=bootstrap,
                group_id=group,
                client_id=client_id,
                auto_offset_reset="earliest",
                heartbeat_interval_ms=2_000,  # with the default, it would take little for a member to be late
            ) as consumer:
                joined.set_result(None)
                while not leaving.is_set():
                    await consumer.getmany(timeout_ms=50)
        except BaseException as error:
            if not joined.done():
                joined.set_exception(error)
            raise

    thread = threading.Thread(target=lambda: loop.run_until_complete(stay()), daemon=True)
    thread.start()
    try:
        joined.result(30)
        yield
    finally:
        loop.call_soon_threadsafe(leaving.set)
        thread.join(30)
        loop.close()


@pytest.fixture
def join(broker: Broker) -> Iterator[Callable[..., ExitStack]]:
    """Let a member join; closing what is returned lets it leave."""
    with ExitStack() as members:

        def start(group: str, client_id: str) -> ExitStack:
            member = members.enter_context(ExitStack())
            member.enter_context(membership(broker.bootstrap_servers, group, client_id))
            return member

        yield start
