"""Honest members of groups, in a process of its own: each heartbeat is sent when the one before was answered.

Run as ``python -m tests.hostile.honest PORT GROUPS INTERVAL_S``. Prints ``joined`` once all are, and what they felt,
as JSON, when a line is read from standard input.
"""

from __future__ import annotations

import json
import os
import select
import statistics
import sys
import time

from tests.support.client import Client


def run(port: int, groups: int, interval_s: float) -> dict[str, float]:
    """Send heartbeats by turns until standard input has a line.

    Raises:
        AssertionError: one was answered with an error.
    """
    members = []
    for number in range(groups):
        client, group = Client(port, "honest"), f"honest-{os.getpid()}-{number}"
        members.append((client, group, client.stable(group, session_ms=60_000, rebalance_ms=60_000)))
    print("joined", flush=True)
    took_ms: list[float] = []
    while not select.select([sys.stdin], [], [], interval_s)[0]:
        client, group, joined = members[len(took_ms) % groups]
        began = time.perf_counter()
        error = client.heartbeat(group, joined)
        took_ms.append((time.perf_counter() - began) * 1000)
        assert error == 0, f"{group} was answered with error {error}"
    assert len(took_ms) >= 2, "too few heartbeats to say anything"
    quantiles = statistics.quantiles(took_ms, n=100, method="inclusive")
    return {"heartbeats": len(took_ms), "p50_ms": quantiles[49], "p99_ms": quantiles[98], "longest_ms": max(took_ms)}


if __name__ == "__main__":
    print(json.dumps(run(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))), flush=True)
