"""A real process on a real disk is killed while it appends; opened again, everything it acknowledged is there."""

import pathlib
import random
import signal
import subprocess
import sys
import uuid

from ottla.broker.engine import LogConfig
from ottla.broker.storage.local.engine import LocalEngine
from ottla.protocol.records import decode_batch, iter_batches

CHILD = pathlib.Path(__file__).with_name("appending_child.py")
KILLS = 6


def run_and_kill(directory, seed, lines):
    """Let a child work until it has said that many lines, kill it, and return all that it said."""
    child = subprocess.Popen([sys.executable, str(CHILD), str(directory), str(seed)], stdout=subprocess.PIPE)
    said = []
    try:
        for line in child.stdout:
            said.append(line)
            if len(said) >= lines:
                break
        child.send_signal(signal.SIGKILL)
        said += child.stdout.readlines()
    finally:
        child.kill()
        status = child.wait()
        child.stdout.close()
    assert status == -signal.SIGKILL, "the child ended by itself"
    return said


async def read_all(directory):
    """Every log's start offset and its values by offset."""
    engine = LocalEngine(str(directory), node_id=1, new_uuid=lambda: uuid.UUID(int=1))
    await engine.open()
    found = []
    for partition in range(3):
        log = await engine.open_log("t", uuid.UUID(int=3), partition, LogConfig())
        data = b""
        offset = log.log_start_offset
        while offset < log.high_watermark:
            piece = log.read(offset, max_bytes=100_000)
            offset = [header.last_offset for header, _ in iter_batches(piece)][-1] + 1
            data += piece
        records = [record for _, batch in iter_batches(data) for record in decode_batch(batch)]
        found.append((log.log_start_offset, {record.offset: record.value for record in records}))
    await engine.close()
    return found


async def test_killed_at_any_moment_nothing_acknowledged_is_lost(tmp_path):
    draw = random.Random(20)
    acknowledged = [{}, {}, {}]
    starts = [0, 0, 0]
    for seed in range(KILLS):
        for line in run_and_kill(tmp_path, seed, draw.choice([1, 50, 500, 2000])):
            first, second, third = line.split()
            if first == b"trim":
                starts[int(second)] = int(third)
            else:
                acknowledged[int(first)][int(second)] = third
        if seed % 2:
            # Half of the time the next child itself has to recover.
            continue
        for expected, start, (found_start, found) in zip(acknowledged, starts, await read_all(tmp_path), strict=True):
            assert found_start >= start
            for offset, name in expected.items():
                if offset >= found_start:
                    assert found[offset].startswith(name), f"offset {offset} after child {seed}"
    assert sum(map(len, acknowledged)) > 500
