"""Random logs that grow and are compacted in turn; every round has to be as the model says."""

import random

from ottla.protocol.compression import Codec
from ottla.protocol.records import TimestampType, decode_batch
from tests.core.cleaning.sketch import Sketch, check, compact, expect

KEYS = [None, b"", b"a", b"b", b"long key, kept as a digest 1", b"long key, kept as a digest 2", b"c" * 15, b"c" * 16]


def grow(rng, sketch, steps, first_producer=0):
    """Append something at random; producers below the first have written their last."""
    for producer in [each for each in sketch.open if each < first_producer]:
        sketch.end(producer, commit=rng.random() < 0.5, bump=rng.random() < 0.6)
    for _ in range(steps):
        producer = first_producer + rng.randrange(4)
        if producer in sketch.open and rng.random() < 0.35:
            sketch.end(producer, commit=rng.random() < 0.5, timestamp_ms=rng.randrange(1000), bump=rng.random() < 0.3)
            continue
        in_transaction = producer in sketch.open or rng.random() < 0.3
        keys = KEYS if rng.random() < 0.3 else KEYS[1:]
        sketch.append(
            [
                (rng.choice(keys), None if rng.random() < 0.3 else rng.randbytes(rng.randrange(9)), rng.randrange(1000))
                for _ in range(rng.randrange(1, 5))
            ],
            codec=rng.choice(list(Codec)),
            timestamp_type=rng.choice(list(TimestampType)),
            producer_id=producer if in_transaction or rng.random() < 0.5 else -1,
            in_transaction=in_transaction,
        )


def play(seed, steps=25, rounds=4):
    """Let a log grow, compact it up to some batch, and so on; every round is as the model says."""
    rng = random.Random(seed)
    sketch, encoded, from_offset, wall_ms = Sketch(), [], 0, 10_000
    for index in range(rounds):
        known = sketch.next_offset
        grow(rng, sketch, rng.randrange(steps), index if seed % 2 else 0)
        encoded += [batch.encoded for batch in sketch.batches if batch.base_offset >= known]
        ends = [batch.last_offset + 1 for batch in sketch.batches]
        ends = [end for end in ends if from_offset <= end <= sketch.stable_offset]
        wall_ms += rng.randrange(300)
        if ends:
            upto_offset = rng.choice(ends)
            given = {
                "wall_ms": wall_ms,
                "delete_retention_ms": rng.choice([0, 100, 10**6]),
                "last_batches": dict(sketch.known),
            }
            encoded, from_offset = compact(sketch, encoded, from_offset=from_offset, upto_offset=upto_offset, **given)
            expect(sketch, upto_offset=upto_offset, **given)
            assert from_offset == upto_offset
        check(sketch, encoded)


def play_with_little_memory(seed, pause_ms=0):
    """Compact a log of more keys than memory holds; the number of rounds that it takes.

    With a pause between rounds tombstones may go; what counts then is that no value comes back.
    """
    rng = random.Random(seed)
    sketch, from_offset, rounds, wall_ms = Sketch(), 0, 0, 0
    for index in range(60):
        value = None if index >= 50 and rng.random() < 0.5 else b"v%d" % index
        sketch.append([(b"%d" % rng.randrange(30), value, 0)])
    last = {record.key: record.value for batch in sketch.batches for record in batch.records}
    encoded = [batch.encoded for batch in sketch.batches]
    given = {"delete_retention_ms": 1, "last_batches": {}}
    while from_offset < sketch.next_offset:
        before = from_offset
        encoded, from_offset = compact(
            sketch,
            encoded,
            from_offset=from_offset,
            upto_offset=sketch.next_offset,
            wall_ms=wall_ms,
            buffer_bytes=1600,
            **given,
        )
        assert from_offset > before
        rounds += 1
        wall_ms += pause_ms
    if not pause_ms:
        expect(sketch, upto_offset=sketch.next_offset, wall_ms=0, **given)
        check(sketch, encoded)
    left = {record.key: record.value for batch in encoded for record in decode_batch(batch)}
    assert {key: value for key, value in left.items() if value} == {key: value for key, value in last.items() if value}
    return rounds
