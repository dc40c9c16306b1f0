"""Aborted transactions, as Fetch names them and as a log of files shows them."""

import random

from ottla.pipeline.codec import Aborted, Transactions, walk
from tests.pipeline.codec.logs import marker, records, transactional
from tests.support.batches import build_batch

A, B = 1000, 2000
LOG = [
    build_batch(records(1)),  # 0
    transactional(A, 1),
    transactional(B, 2),
    build_batch(records(1), base_offset=3, producer_id=A, producer_epoch=0),  # the producer's, in no transaction
    transactional(A, 4),
    marker(A, 5, commit=False),
    marker(B, 6, commit=True),
    transactional(A, 7, 2),
    marker(A, 9, commit=True),
    transactional(B, 10),
    marker(B, 11, commit=False),
    transactional(A, 12),
]
STABLE = [0, 2, 3, 7, 8]


def test_read_committed() -> None:
    pairs = [(A, 1), (B, 10)]
    assert walk(b"".join(LOG), aborted=pairs, end_offset=12).offsets.tolist() == STABLE
    assert walk(b"".join(LOG), aborted=[(B, 10), (A, 1)], end_offset=12).offsets.tolist() == STABLE


def test_read_uncommitted_leaves_out_markers_only() -> None:
    assert walk(b"".join(LOG)).offsets.tolist() == [0, 1, 2, 3, 4, 7, 8, 10, 12]


def test_a_fetch_from_the_middle_of_a_transaction() -> None:
    data = b"".join(LOG[3:])
    assert walk(data, start_offset=3, end_offset=12, aborted=[(A, 1), (B, 10)]).offsets.tolist() == [3, 7, 8]


def test_going_on_in_the_same_bytes() -> None:
    """A transaction that has ended is not given to the next walk, which would take the producer's next for it."""
    data, found, aborted = b"".join(LOG), [], ((A, 1), (B, 10))
    offset = 0
    for one in LOG:
        chunk = walk(one, start_offset=offset, end_offset=12, aborted=aborted)
        found += chunk.offsets.tolist()
        offset, aborted = chunk.next_offset, chunk.aborted
    assert found == STABLE
    assert walk(data, aborted=[(A, 1), (B, 10)]).aborted == ()
    assert walk(b"".join(LOG[:5]), aborted=[(A, 1), (B, 10)]).aborted == (Aborted(A, 1), Aborted(B, 10))


def test_a_scan_finds_what_fetch_would_say() -> None:
    scan = Transactions()
    assert scan.feed(b"".join(LOG)) == len(b"".join(LOG))
    assert scan.aborted == [Aborted(A, 1, 5), Aborted(B, 10, 11)]
    assert (scan.last_stable_offset, scan.next_offset) == (12, 13)
    scan.feed(marker(A, 13, commit=True))
    assert (scan.last_stable_offset, scan.next_offset) == (14, 14)


def test_a_scan_in_pieces() -> None:
    data, rng = b"".join(LOG), random.Random(3)
    for _ in range(30):
        scan, at, size = Transactions(), 0, 0
        while at < len(data):
            size += rng.randrange(1, 90)
            taken = scan.feed(data[at : at + size])
            at, size = at + taken, size - taken
        assert scan.aborted == [Aborted(A, 1, 5), Aborted(B, 10, 11)]
        assert scan.last_stable_offset == 12


def test_ranges_with_ends_reach_no_further() -> None:
    """Walking in the middle of a log with all that a scan has found: what ended before is over."""
    aborted = [Aborted(A, 1, 5), Aborted(B, 10, 11)]
    for first, offset in enumerate([0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12]):
        chunk = walk(b"".join(LOG[first:]), start_offset=offset, aborted=aborted, end_offset=12)
        assert chunk.offsets.tolist() == [one for one in STABLE if one >= offset]


def test_a_scan_stops_where_no_batch_is() -> None:
    scan = Transactions()
    data = LOG[0] + b"\xff" * 80
    assert scan.feed(data) == len(LOG[0])
    assert scan.feed(bytes(100)) == 0
    assert scan.next_offset == 1


def test_damaged_markers_end_nothing() -> None:
    """The transaction stays open, so nothing behind it is taken for stable."""
    broken = bytearray(marker(A, 2, commit=False))
    broken[-3] ^= 0xFF
    scan = Transactions()
    scan.feed(transactional(A, 1) + bytes(broken))
    assert (scan.aborted, scan.last_stable_offset) == ([], 1)
