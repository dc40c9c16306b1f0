"""The journal of a data directory as those read it who are no broker."""

import uuid

import pytest

from ottla.protocol.records import Record
from ottla.protocol.stored.checkpoint import Checkpoint, LogState, encode_checkpoint
from ottla.protocol.stored.files import in_use, is_locked
from ottla.protocol.stored.frames import PADDING, Kind, frame_bytes, header
from ottla.protocol.stored.journal import JournalView, Trusted, data_directory_of
from ottla.protocol.stored.names import journal_name
from tests.support.batches import build_batch

OLD, NEW = uuid.UUID(int=1), uuid.UUID(int=2)


class Written:
    """A data directory with a log ``t-0`` of two batches in a segment, and frames beyond its checkpoint."""

    def __init__(self, directory):
        self.directory = directory
        (directory / "journal").mkdir()
        (directory / "meta.properties").touch()
        state = LogState(log_id=1, name="t-0", topic_id=OLD.hex, next_offset=2, segment=0, length=150)
        (directory / "checkpoint").write_bytes(encode_checkpoint(Checkpoint(epoch=0, next_log_id=2, logs=[state])))
        self.journal = directory / "journal" / journal_name(0)
        self.frames = b""

    def frame(self, kind, log_id, body):
        lsn = len(self.frames)
        self.frames += header(kind, 0, len(body), lsn, lsn, log_id, 0, (body,)) + body + PADDING[len(body) % 8]
        assert len(self.frames) == lsn + frame_bytes(len(body))

    def begin(self, log_id, topic_id):
        self.frame(Kind.LOG, log_id, topic_id.bytes + b"t-0")

    def batch(self, log_id, offset):
        self.frame(Kind.BATCH, log_id, build_batch([Record(value=b"v")], base_offset=offset))

    def view(self, tail=b""):
        self.journal.write_bytes(self.frames + tail + bytes(100))
        return JournalView(self.directory)


@pytest.fixture
def written(tmp_path):
    written = Written(tmp_path)
    for offset in (2, 3):
        written.batch(1, offset)
    return written


def offsets(view):
    return [place.base_offset for place in view.followed.places.get("t-0", ())]


def test_batches_beyond_the_checkpoint_are_found_and_segments_count_up_to_it(written):
    view = written.view()
    assert (offsets(view), view.trusted("t-0"), view.is_damaged) == ([2, 3], Trusted(0, 150), False)
    assert [view.trusted("t-0").end_of(base) for base in (0, 5)] == [150, None]
    place = view.followed.places["t-0"][1]
    assert written.frames[place.position : place.position + place.size].endswith(b"v\0")
    assert (place.path, place.end_offset, view.trusted("u-0")) == (written.journal, 4, Trusted(-1, 0))


def test_a_log_whose_beginning_is_written_again_keeps_its_batches(written):
    written.begin(1, OLD)
    written.batch(1, 4)
    view = written.view()
    assert (offsets(view), view.trusted("t-0")) == ([2, 3, 4], Trusted(0, 150))


def test_a_log_that_was_made_anew_has_nothing_of_the_one_before(written):
    written.begin(2, NEW)
    written.batch(2, 0)
    written.batch(1, 4)
    view = written.view()
    assert (offsets(view), view.trusted("t-0"), view.followed.states) == ([0], Trusted(-1, 0), {})


@pytest.mark.parametrize("is_vouched_for", [True, False])
def test_damage_is_told_from_a_torn_end(written, is_vouched_for):
    end = len(written.frames)
    if is_vouched_for:
        written.batch(1, 4)
        written.batch(1, 5)
    written.frames = written.frames[: end - 20] + b"damage" + written.frames[end - 14 :]
    view = written.view()
    assert (offsets(view), view.is_damaged) == ([2], is_vouched_for)


def test_a_checkpoint_that_is_damaged_is_a_problem_and_one_that_is_missing_is_none(written):
    checkpoint = written.directory / "checkpoint"
    checkpoint.write_bytes(checkpoint.read_bytes().replace(b'"epoch":0', b'"epoch":1'))
    assert "is damaged" in written.view().problem
    checkpoint.unlink()
    view = written.view()
    assert (view.problem, view.is_clean, view.followed.places) == ("", True, {})


def test_a_directory_is_found_from_anything_in_it(written):
    assert data_directory_of(written.journal) == data_directory_of(written.directory) == written.directory
    assert data_directory_of(written.directory.parent) is None
    assert not is_locked(written.directory) and not in_use(written.journal)
