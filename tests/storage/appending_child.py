"""A process that appends until it is killed, and says on stdout what was acknowledged: for test_local_kill."""

import asyncio
import os
import random
import sys
import uuid

from ottla.broker.engine import Durability, LogConfig
from ottla.broker.storage.local.engine import LocalEngine
from ottla.protocol.records import BatchBuilder

TOPIC_ID = uuid.UUID(int=3)


async def main(directory, seed):
    draw = random.Random(seed)
    engine = LocalEngine(directory, node_id=1, new_uuid=lambda: uuid.UUID(int=1))
    await engine.open()
    logs = [
        await engine.open_log("t", TOPIC_ID, partition, LogConfig(segment_bytes=20_000, durability=durability))
        for partition, durability in enumerate(Durability)
    ]
    number = 0
    while True:
        for _ in range(draw.randrange(1, 30)):
            number += 1
            log = draw.choice(logs)
            value = b"%d:%d:" % (seed, number) + b"v" * draw.randrange(500)
            name = value.split(b"v")[0].decode()

            def done(base_offset, error, partition=log.tp.partition, name=name):
                assert error is None
                # One write each: the parent reads whole lines whenever this process ends.
                os.write(1, f"{partition} {base_offset} {name}\n".encode())

            builder = BatchBuilder()
            builder.append(None, value, number)
            log.append(builder.build(), count=1, max_timestamp_ms=number, done=done)
        if draw.random() < 0.02:
            log = draw.choice(logs)
            start = await log.trim(draw.randint(log.log_start_offset, log.high_watermark))
            os.write(1, f"trim {log.tp.partition} {start}\n".encode())
        await asyncio.sleep(0)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
