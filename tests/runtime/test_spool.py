"""Batches on their way into a segment: in memory at first, then in a file, and read alike."""

import pytest

from ottla.broker.runtime import spool as spools
from ottla.broker.runtime.spool import Spool


@pytest.mark.parametrize("limit", [0, 7, 1 << 20])
@pytest.mark.parametrize("on_disk", [False, True])
def test_what_was_added_is_read(monkeypatch, tmp_path, limit, on_disk):
    monkeypatch.setattr(spools, "MEMORY_BYTES", limit)
    spool = Spool(tmp_path if on_disk else None)
    batches = [b"a", b"bcd", memoryview(b"efghij"), b"k" * 100]
    for batch in batches:
        spool.add(batch)
    assert [bytes(batch) for batch in spool] == [bytes(batch) for batch in batches]
    assert (len(spool), spool.size_bytes) == (4, 110)
    assert [bytes(batch) for batch in spool[1:3]] == [b"bcd", b"efghij"]
    assert bytes(spool[-1]) == b"k" * 100
    with pytest.raises(IndexError):
        spool[4]
    assert list(tmp_path.iterdir()) == []
    spool.close()


def test_an_empty_one():
    assert list(Spool(None)) == []
