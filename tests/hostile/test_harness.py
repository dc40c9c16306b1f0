"""The instruments that the tests of this folder trust."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.hostile.victim import Victim


@pytest.mark.e2e
def test_a_stall_is_felt() -> None:
    with Victim() as victim:
        with victim.calm() as quiet:
            time.sleep(0.5)
        with victim.calm() as stalled:
            time.sleep(0.2)
            os.kill(victim.pid, signal.SIGSTOP)
            time.sleep(0.4)
            os.kill(victim.pid, signal.SIGCONT)
            time.sleep(0.2)
    assert quiet.heartbeats > 10
    assert stalled.longest_ms > 300 > quiet.p50_ms


@pytest.mark.e2e
def test_limits_reach_the_broker() -> None:
    with Victim(ulimit=("-Sn 512", "-Hn 777")) as victim:
        limits = Path(f"/proc/{victim.pid}/limits").read_text(encoding="ascii")
        assert "777" in limits.partition("Max open files")[2].partition("\n")[0]
        assert victim.peak_bytes() > 10 << 20
