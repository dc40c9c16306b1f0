"""A cluster of groups with one partition each, to hold single rules against: half an hour, ten records a second."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ottla.pipeline.tables import RECORD_TIMES
from ottla.protocol.offsets_topic import OffsetValue, encode_offset_value, offset_key
from tests.pipeline.generator import START_MS, Longs, Topic, World

if TYPE_CHECKING:
    import pyarrow as pa

SECONDS = 1800


def rules() -> World:
    """Groups ``r-…``; what each is for is said where it is made."""
    world = World(SECONDS, np.random.default_rng(0))
    steady = 10_000 + 10 * np.arange(SECONDS, dtype=np.int64)

    def group(name: str, seconds: Longs, offsets: Longs, ends: Longs | None = steady) -> None:
        world.groups.append(name)
        if ends is not None:
            world.topics[f"{name}-topic"] = Topic(f"{name}-topic", ends[:, None])
        world.commits(name, f"{name}-topic", [0], START_MS + seconds * 1000, offsets[:, None])

    minutes = np.arange(60, SECONDS, 60)
    behind = steady - 1000
    # Before the first sample: how old its lag is nobody knows, but it is not 0.
    group("r-before", np.array([60]), np.array([100]))
    # The same, but the time of the record is known.
    group("r-aged", np.array([60]), np.array([100]))
    # Nobody samples its topic.
    group("r-unsampled", minutes, behind[minutes], None)
    # Burrow's rules.
    group("r-ok", minutes, behind[minutes] + 300 * (np.arange(len(minutes)) % 2))
    group("r-warn", minutes, steady[minutes] - 4 * minutes)
    group("r-stall", minutes, np.full(len(minutes), 9_000))
    set_back = np.where(minutes < 1500, behind[minutes], behind[minutes] - 5_000)
    group("r-rewind", minutes, set_back)
    early = np.arange(300, 600, 30)
    group("r-stop", early, behind[early])
    # It has committed the end; then nothing was written for long, and something ten seconds ago.
    still = np.where(np.arange(SECONDS) < 1790, np.minimum(steady, steady[1000]), steady[1000] + 500)
    times = np.arange(900, 1100, 10)
    group("r-level", times, still[times], still)
    group("r-once", np.array([1000]), np.array([9_000]))
    # Two commits at one time: the later in the log counts.
    group("r-twice", np.array([60, 600]), behind[[60, 600]])
    key, plain = offset_key("r-twice", "r-twice-topic", 0), {"leader_epoch": -1, "commit_timestamp": START_MS}
    twice = [OffsetValue(offset=offset, metadata="", **plain) for offset in (15_000, 14_000)]
    world.write("r-twice", START_MS + 1_200_000, *((key, encode_offset_value(one, 3)) for one in twice))
    # A group of the same name as one of another cluster.
    group("g-plain0", minutes, behind[minutes])
    return world


def record_times() -> pa.Table:
    """The record at which ``r-aged`` stands is an hour older than all else."""
    import pyarrow as pa

    row = ("r-aged-topic", 0, 100, (START_MS - 3_600_000) * 1000)
    schema = RECORD_TIMES.arrow(whole=False)
    return pa.table([pa.array([value], field.type) for value, field in zip(row, schema, strict=True)], schema=schema)
