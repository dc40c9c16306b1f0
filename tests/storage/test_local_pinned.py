"""A segment that is being replaced stays readable, whatever becomes of its files meanwhile."""

import os

from ottla.broker.storage.local.files import Files
from ottla.broker.storage.local.replace import replace_segments
from ottla.broker.storage.local.segment import Readers, Segment, SegmentIndex, write_index
from ottla.protocol.records import Record, iter_batches
from tests.support.batches import build_batch


def segment_of(files, readers, directory, base, sizes):
    """Write a segment with a batch of each of these sizes, and open it."""
    content, index = b"", SegmentIndex(base)
    for number, size in enumerate(sizes):
        batch = build_batch([Record(0, number, None, bytes(size))], base_offset=base + number)
        index.add(base + number, len(content), len(batch), number, 0)
        content += batch
    path = os.path.join(directory, f"{base:020d}.log")
    with open(path, "wb") as file:
        file.write(content)
    write_index(files, directory, index)
    return Segment(readers, directory, base, size=len(content), next_offset=base + len(sizes)), content


def test_a_pinned_segment_is_read_as_it_was(tmp_path):
    """Another reader takes its handle, and its index files belong to the new segment already."""
    files = Files()
    readers = Readers(files, 1)
    directory = str(tmp_path)
    old, content = segment_of(files, readers, directory, 0, [1000 + 37 * number for number in range(40)])
    other, _ = segment_of(files, readers, directory, 1000, [10])
    old.pin()
    kept = [bytes(batch) for header, batch in iter_batches(content) if header.base_offset % 3]
    replace_segments(files, directory, 0, 40, kept, 0)
    other.read(1000, 1001, 100, True)
    for offset in (0, 7, 20, 39):
        (header, batch), *_ = iter_batches(old.read(offset, 40, 1, True)[0])
        assert header.base_offset == offset
        assert bytes(batch) in content
    old.unpin()
    readers.close_all()
