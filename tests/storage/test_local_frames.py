"""Frames of the journal: what is written is read, and whatever is not whole is not."""

import random

import pytest

from ottla.protocol.stored.frames import (
    HEADER_BYTES,
    PADDING,
    Kind,
    Window,
    claimed_bytes,
    consecutive_frames,
    frame_bytes,
    header,
    read_frame,
    scan_frames,
)
from ottla.protocol.stored.names import journal_name, parse_journal_name
from tests.storage.simulated_disk import SimulatedDisk

FIRST = 4096
MIB = 1024 * 1024


def frame(lsn, body, synced_lsn=0, kind=Kind.BATCH):
    return header(kind, 0, len(body), lsn, synced_lsn, 7, 3, (body,)) + body + PADDING[len(body) % 8]


def file_of(content):
    disk = SimulatedDisk(seed=0)
    disk.put("/data/file", content)
    return Window(disk, "/data/file")


def written(sizes, seed=0):
    """A file with frames of these body sizes, one after the other; the bodies and where each frame begins."""
    draw = random.Random(seed)
    content, places, bodies = bytearray(), [], []
    for size in sizes:
        bodies.append(draw.randbytes(size))
        places.append(len(content))
        content += frame(FIRST + len(content), bodies[-1], synced_lsn=FIRST + len(content))
    return bytes(content), places, bodies


SIZES = [0, 1, 7, 8, 9, 100, 3 * MIB, 5, MIB - 40, 1, MIB, 2, *[500] * 3000, 2 * MIB + 3, 4]


def test_what_is_written_is_read_whatever_its_size():
    content, places, bodies = written(SIZES)
    for after in (b"", bytes(100), b"\xff" * 100, content[:1000]):
        frames = list(consecutive_frames(file_of(content + after), FIRST, 0))
        assert [one.body for one in frames] == bodies
        assert [one.lsn - FIRST for one in frames] == places
        assert {(one.kind, one.log_id, one.epoch) for one in frames} == {(Kind.BATCH, 7, 3)}
        assert frames[-1].end_lsn == FIRST + len(content)
    window = file_of(content)
    assert [read_frame(window, FIRST, place).body for place in places] == bodies
    assert [one.body for one in consecutive_frames(window, FIRST, places[5])] == bodies[5:]


def test_a_header_has_forty_bytes_and_frames_lie_at_multiples_of_eight():
    assert len(frame(0, b"")) == HEADER_BYTES == 40
    assert all(len(frame(0, bytes(size))) == frame_bytes(size) == (40 + size + 7) // 8 * 8 for size in range(30))


@pytest.mark.parametrize("position", range(48))
def test_a_flipped_bit_is_noticed_wherever_it_is(position):
    content, places, bodies = written([8, 8, 8])
    damaged = bytearray(content)
    damaged[places[1] + position] ^= 16
    assert [one.body for one in consecutive_frames(file_of(bytes(damaged)), FIRST, 0)] == bodies[:1]
    assert read_frame(file_of(bytes(damaged)), FIRST, places[1]) is None
    assert [one.body for one in scan_frames(file_of(bytes(damaged)), FIRST, 0)] == [bodies[0], bodies[2]]


@pytest.mark.parametrize("left", [1, 39, 40, 41, 47])
def test_a_frame_that_is_cut_off_is_none(left):
    content, places, bodies = written([8, 8])
    window = file_of(content[: places[1] + left])
    assert [one.body for one in consecutive_frames(window, FIRST, 0)] == bodies[:1]
    assert claimed_bytes(window, FIRST, places[1]) == (left if left >= 40 else 0)


def test_a_frame_of_an_earlier_use_of_the_file_is_none():
    content, _, _ = written([8, 8, 8])
    window = file_of(content)
    assert list(consecutive_frames(window, FIRST + 4096, 0)) == []
    assert list(scan_frames(window, FIRST + 4096, 0)) == []
    assert claimed_bytes(window, FIRST + 4096, 0) == 0


@pytest.mark.parametrize("seed", range(5))
def test_frames_are_found_behind_anything(seed):
    draw = random.Random(seed)
    content, bodies = bytearray(), []
    while len(content) < 4 * MIB:
        # Zeros, noise, and noise that looks like the beginning of frames, across the ends of what is read at a time.
        size = draw.choice([8, 80, 800, MIB - 64, MIB - 8, MIB]) // 8 * 8
        content += draw.choice([bytes(size), draw.randbytes(size), (b"OJ" * size)[:size]])
        bodies.append(draw.randbytes(draw.choice([0, 8, 1000, 20_000])))
        content += frame(FIRST + len(content), bodies[-1])
    found = list(scan_frames(file_of(bytes(content)), FIRST, 0))
    assert [one.body for one in found] == bodies


def test_files_are_named_after_their_first_lsn():
    assert journal_name(1234) == "00000000000000001234.wal"
    assert parse_journal_name(journal_name(1234)) == 1234
    for name in ("spare-0-1", "0.wal", "x" * 20 + ".wal", journal_name(5) + ".kept"):
        assert parse_journal_name(name) is None
