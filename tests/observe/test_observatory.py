"""What observes a broker: nothing by default, and nothing that is not needed yet."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ottla.broker.app import Broker
from ottla.broker.settings import Settings
from ottla.observe.observatory import Observatory

LATER = ("observe.why.tracker", "observe.why.words", "observe.view", "observe.http", "observe.timeline.build")
START = f"""
import sys
from ottla.testing import Broker
with Broker():
    print(*(one for one in sys.modules if one.startswith({tuple(f"ottla.{one}" for one in LATER)})))
"""


def test_a_start_imports_nothing_that_is_needed_later() -> None:
    found = subprocess.run([sys.executable, "-c", START], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.split() == []


async def test_a_broker_needs_nobody_who_observes_it() -> None:
    broker = Broker(Settings(), directory=None)
    await broker.start()
    assert broker.listening
    await broker.stop()


async def test_a_start_that_fails_lets_go_of_what_observes() -> None:
    settings = Settings(ottla_http_listen="127.0.0.1:0", ottla_recorder_file="/nowhere/at/all.rec")
    observatory = Observatory(settings)
    broker = Broker(settings, directory=None, observing=observatory)
    with pytest.raises(Exception, match=r"cannot record in /nowhere/at/all\.rec"):
        await broker.start()
    assert observatory.http is None
